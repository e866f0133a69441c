//! A single writer with group commit.
//!
//! SQLite allows one connection to write at a time, and a durable commit costs an `fsync`. So one
//! thread owns the writing connection: it takes all waiting commands, runs them in one transaction,
//! commits once, and answers each command. A command that fails is rolled back alone; a commit that
//! fails, fails all commands of the group.
//!
//! A savepoint copies every page before the page is changed, which made draining a queue cost 10 %
//! more, and commands rarely fail. So a group runs without savepoints first. If a command fails,
//! the group is rolled back and runs again with a savepoint per command.
//!
//! In inline mode the same code runs on the caller's thread, one command at a time, so that a
//! simulation is reproducible.

use std::{
    error::Error as _,
    sync::Mutex,
    thread::{self, JoinHandle},
};

use redrive_store::{Error, Result};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::{
    WriterMode,
    error::database,
    log_limit::{LogLimit, empty_log},
};

/// Commands that may wait in the channel; further callers wait to send.
const MAX_WAITING: usize = 4_096;

/// The most commands in one commit, which bounds the wait of the first command.
const MAX_GROUP: usize = 1_024;

pub(crate) enum Writer {
    Thread { commands: Option<mpsc::Sender<Box<dyn WriteCommand>>>, thread: Option<JoinHandle<()>> },
    Inline(Mutex<(Connection, LogLimit)>),
}

/// A type-erased command: runs in the transaction, answered after the commit.
pub(crate) trait WriteCommand: Send {
    /// Runs the command. A second run follows if the first was rolled back. On an error the changes
    /// of the command must be rolled back; the error stays in the command for its caller.
    fn run(&mut self, connection: &Connection) -> Result<(), &Error>;

    /// Sends the result to the caller. `lost` says why the transaction failed, if it did.
    fn answer(self: Box<Self>, lost: Option<&TransactionFailure>);
}

/// Why the transaction of a group failed.
pub(crate) enum TransactionFailure {
    /// The transaction could not begin or commit.
    Failed(rusqlite::Error),
    /// A command failed with an error that ended the transaction, such as a full disk.
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
        // The caller may have been dropped.
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

    fn is_full(&self) -> bool {
        matches!(self.error(), Error::Full { .. })
    }

    /// The same error for every command of the group. Each command may be retried.
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
            WriterMode::Inline => Ok(Self::Inline(Mutex::new((connection, LogLimit::default())))),
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

    /// Runs work in a transaction and returns after the commit.
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
                let (connection, limit) = &mut *connection.lock().map_err(|_| writer_gone())?;
                commit_group(connection, limit, vec![command]);
            }
        }
        outcome.await.map_err(|_| writer_gone())?
    }
}

/// Waits until every command is done and the file is closed, so that a dropped store leaves a
/// single complete file.
impl Drop for Writer {
    fn drop(&mut self) {
        if let Self::Thread { commands, thread } = self {
            commands.take();
            if let Some(thread) = thread.take() {
                // The callers of a writer that panicked already have an error.
                let _ = thread.join();
            }
        }
    }
}

fn writer_gone() -> Error {
    Error::Unavailable { doing: "writing".to_owned(), source: "the writer has stopped".into() }
}

fn serve(connection: &Connection, mut commands: mpsc::Receiver<Box<dyn WriteCommand>>) {
    let mut limit = LogLimit::default();
    while let Some(first) = commands.blocking_recv() {
        let mut group = vec![first];
        while group.len() < MAX_GROUP
            && let Ok(next) = commands.try_recv()
        {
            group.push(next);
        }
        commit_group(connection, &mut limit, group);
    }
}

/// Runs commands in one transaction and answers each after the commit.
fn commit_group(
    connection: &Connection,
    limit: &mut LogLimit,
    mut group: Vec<Box<dyn WriteCommand>>,
) {
    // A limit that cannot be set is set before the next group.
    let _ = limit.adjust(connection);
    let mut lost = try_group(connection, &mut group).err();
    if lost.as_ref().is_some_and(TransactionFailure::is_full) && empty_log(connection) {
        lost = try_group(connection, &mut group).err();
    }
    for command in group {
        command.answer(lost.as_ref());
    }
}

fn try_group(
    connection: &Connection,
    group: &mut [Box<dyn WriteCommand>],
) -> Result<(), TransactionFailure> {
    let outcome = run_group(connection, group);
    if !connection.is_autocommit() {
        // If the rollback fails, the next BEGIN fails and reports the error.
        let _ = connection.execute_batch("ROLLBACK");
    }
    outcome
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
    let run = |command: &mut Box<dyn WriteCommand>| {
        command.run(connection).err().map(TransactionFailure::by_command)
    };
    let Some(failure) = group.iter_mut().find_map(run) else { return commit() };
    // A lone command is rolled back with its transaction. On a full disk the others would fail too.
    if group.len() == 1 || failure.is_full() {
        return Err(failure);
    }
    // Some errors end the transaction.
    if !connection.is_autocommit() {
        execute("ROLLBACK")?;
    }
    execute("BEGIN IMMEDIATE")?;
    for command in group {
        execute("SAVEPOINT command")?;
        if let Err(error) = command.run(connection) {
            // Some errors end the transaction, including the writes of earlier commands.
            if connection.is_autocommit() {
                return Err(TransactionFailure::by_command(error));
            }
            execute("ROLLBACK TO command")?;
        }
        execute("RELEASE command")?;
    }
    commit()
}

/// `rusqlite::Error` is not `Clone`.
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
