//! One writer, group commit.
//!
//! SQLite lets one connection write at a time, and a durable commit costs an `fsync`. So one thread
//! owns the writing connection: it takes every command that waits, runs them in one transaction,
//! commits once and then answers each. A command that fails is rolled back alone; a commit that fails
//! fails them all.
//!
//! Within a savepoint every page is copied before it is changed, which made a drain cost a tenth more, and
//! hardly any command fails. So commands are run without savepoints first. If one fails, everything is
//! rolled back and run again with them.
//!
//! The same code runs inline, on the caller's thread, one command at a time: a simulation needs a
//! store that does the same thing for the same seed.

use std::{
    error::Error as _,
    sync::Mutex,
    thread::{self, JoinHandle},
};

use redrive_store::{Error, Result};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::{WriterMode, error::database};

/// Commands that may wait before callers wait too.
const MAX_WAITING: usize = 4_096;

/// Commands that share one commit at most, so that the first is not kept waiting for ever.
const MAX_GROUP: usize = 1_024;

/// Runs commands on the writing connection.
pub(crate) enum Writer {
    Thread { commands: Option<mpsc::Sender<Box<dyn WriteCommand>>>, thread: Option<JoinHandle<()>> },
    Inline(Mutex<Connection>),
}

/// A command without its type: run inside the transaction, answered after the commit.
pub(crate) trait WriteCommand: Send {
    /// Does the work, also a second time if the first was rolled back. The error means that it must be
    /// undone, and stays for the caller.
    fn run(&mut self, connection: &Connection) -> Result<(), &Error>;

    /// Tells the caller. A loss is why the transaction around it failed.
    fn answer(self: Box<Self>, lost: Option<&TransactionFailure>);
}

/// Why the transaction around some commands failed.
pub(crate) enum TransactionFailure {
    /// It could not begin or commit.
    Failed(rusqlite::Error),
    /// One of the commands met an error that ended it for all, as a full disk does.
    ByCommand { full: bool, why: String },
}

struct TypedCommand<T, F> {
    work: F,
    outcome: Option<Result<T>>,
    caller: oneshot::Sender<Result<T>>,
}

impl<T, F> WriteCommand for TypedCommand<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> Result<T> + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), &Error> {
        match self.outcome.insert((self.work)(connection)) {
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn answer(self: Box<Self>, lost: Option<&TransactionFailure>) {
        let outcome = match (self.outcome, lost) {
            (Some(Err(error)), _) => Err(error),
            (_, Some(lost)) => Err(lost.error()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(writer_gone()),
        };
        // A caller that went away does not want to know.
        let _ = self.caller.send(outcome);
    }
}

impl TransactionFailure {
    fn by_command(error: &Error) -> Self {
        let mut why = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            why.push_str(": ");
            why.push_str(&source.to_string());
            cause = source.source();
        }
        Self::ByCommand { full: matches!(error, Error::Full { .. }), why }
    }

    /// The same error for every command. Each of them may be tried again.
    fn error(&self) -> Error {
        let doing = "writing".to_owned();
        match self {
            Self::Failed(error) => database(&doing, same_error(error)),
            Self::ByCommand { full: true, why } => {
                Error::Full { doing, source: why.clone().into() }
            }
            Self::ByCommand { full: false, why } => Error::Unavailable {
                doing,
                source: format!("a write in the same transaction ended it: {why}").into(),
            },
        }
    }
}

impl Writer {
    pub(crate) fn start(connection: Connection, mode: WriterMode) -> Result<Self> {
        match mode {
            WriterMode::Inline => Ok(Self::Inline(Mutex::new(connection))),
            WriterMode::Thread => {
                let (commands, receiver) = mpsc::channel(MAX_WAITING);
                let thread = thread::Builder::new()
                    .name("redrive-writer".to_owned())
                    .spawn(move || serve(&connection, receiver))
                    .map_err(|source| Error::Unavailable {
                        doing: "starting the writer".to_owned(),
                        source: source.into(),
                    })?;
                Ok(Self::Thread { commands: Some(commands), thread: Some(thread) })
            }
        }
    }

    /// Runs work in a transaction and returns when it is committed.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T> + Send + 'static,
    {
        let (caller, outcome) = oneshot::channel();
        let command = Box::new(TypedCommand { work, outcome: None, caller });
        match self {
            Self::Thread { commands, .. } => {
                let commands = commands.as_ref().ok_or_else(writer_gone)?;
                commands.send(command).await.map_err(|_| writer_gone())?;
            }
            Self::Inline(connection) => {
                let connection = connection.lock().map_err(|_| writer_gone())?;
                commit_group(&connection, vec![command]);
            }
        }
        outcome.await.map_err(|_| writer_gone())?
    }
}

/// Waits until every command is done and the file is closed, so that a store that is gone has left
/// one whole file behind.
impl Drop for Writer {
    fn drop(&mut self) {
        if let Self::Thread { commands, thread } = self {
            commands.take();
            if let Some(thread) = thread.take() {
                // A writer that panicked has told its callers that it is gone.
                let _ = thread.join();
            }
        }
    }
}

fn writer_gone() -> Error {
    Error::Unavailable { doing: "writing".to_owned(), source: "the writer has stopped".into() }
}

fn serve(connection: &Connection, mut commands: mpsc::Receiver<Box<dyn WriteCommand>>) {
    while let Some(first) = commands.blocking_recv() {
        let mut group = vec![first];
        while group.len() < MAX_GROUP
            && let Ok(next) = commands.try_recv()
        {
            group.push(next);
        }
        commit_group(connection, group);
    }
}

/// Runs commands in one transaction and answers each after its commit.
fn commit_group(connection: &Connection, mut group: Vec<Box<dyn WriteCommand>>) {
    let lost = run_group(connection, &mut group).err();
    if !connection.is_autocommit() {
        // If even this fails, the next BEGIN does, and says so.
        let _ = connection.execute_batch("ROLLBACK");
    }
    for command in group {
        command.answer(lost.as_ref());
    }
}

fn run_group(
    connection: &Connection,
    group: &mut [Box<dyn WriteCommand>],
) -> Result<(), TransactionFailure> {
    let execute = |sql: &str| connection.execute_batch(sql).map_err(TransactionFailure::Failed);
    let commit = || {
        redrive_store::failpoint!("sqlite.writer.committing");
        execute("COMMIT")?;
        redrive_store::failpoint!("sqlite.writer.committed");
        Ok(())
    };
    execute("BEGIN IMMEDIATE")?;
    redrive_store::failpoint!("sqlite.writer.begun");
    if group.iter_mut().all(|command| command.run(connection).is_ok()) {
        return commit();
    }
    if let [_lone] = group {
        // The transaction was its own, and is rolled back with it.
        return Ok(());
    }
    // Some errors have ended the transaction already.
    if !connection.is_autocommit() {
        execute("ROLLBACK")?;
    }
    execute("BEGIN IMMEDIATE")?;
    for command in group {
        execute("SAVEPOINT command")?;
        if let Err(error) = command.run(connection) {
            // Some errors end the whole transaction, and with it what the commands before wrote.
            if connection.is_autocommit() {
                return Err(TransactionFailure::by_command(error));
            }
            execute("ROLLBACK TO command")?;
        }
        execute("RELEASE command")?;
    }
    commit()
}

/// An error as often as it is needed.
fn same_error(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            rusqlite::Error::SqliteFailure(*code, message.clone())
        }
        other => rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR),
            Some(other.to_string()),
        ),
    }
}
