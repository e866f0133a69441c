//! Opens a database, and implements [`Store`].

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    Error, ReadColumn, Result, SchemaStatus, Store, Wakes, latest_version, plan_steps,
    require_version,
};
use rusqlite::Connection;
use tokio::sync::watch;

use crate::{
    backup::backup,
    boot_clock::{SqliteLeaseClock, lease_clock, lease_clock_as_it_is},
    columns::read_rows,
    connection::{connect, open_reader, set_up_writer},
    error::{Doing, In},
    file,
    migrator::{MIGRATIONS, migrate_to_latest, read_status},
    readers::Readers,
    room::check_room,
    run_counts::RunCounts,
    writer::Writer,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    File(PathBuf),
    /// In memory, dropped with the store.
    Memory,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Memory => f.write_str("a database in memory"),
        }
    }
}

/// When a commit returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SqliteSync {
    /// When the commit is on disk: a power failure loses no acknowledged write.
    #[default]
    Full,
    /// Before the commit is on disk: a power failure may lose the last commits, but never damages
    /// the file.
    Normal,
}

impl SqliteSync {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriterMode {
    /// On the writer's thread, in groups.
    #[default]
    Thread,
    /// On the caller's thread, one at a time, so that a simulation is reproducible.
    Inline,
}

#[derive(Clone)]
pub struct SqliteOptions {
    pub synchronous: SqliteSync,
    pub writer: WriterMode,
    /// Replaces the lease clock of the machine.
    pub lease_clock: Option<SqliteLeaseClock>,
    /// The store counts as full below this much free space, because the write-ahead log needs space
    /// for every write. Default: 4 MiB.
    pub min_free_bytes: u64,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            synchronous: SqliteSync::default(),
            writer: WriterMode::default(),
            lease_clock: None,
            min_free_bytes: 4 * 1024 * 1024,
        }
    }
}

pub struct SqliteStore {
    location: Location,
    /// `None` if reads use the writer's connection, as for a database in memory. Declared before
    /// the writer, so that the writer closes last and writes the log back to the file.
    readers: Option<Readers>,
    writer: Writer,
    mode: WriterMode,
    min_free_bytes: u64,
    synchronous: SqliteSync,
    pub(crate) clock: SqliteLeaseClock,
    /// The last counts of runs, for the next call.
    pub(crate) counted: Arc<Mutex<RunCounts>>,
    /// Detects changes; `data_version` is per connection.
    watcher: Arc<Mutex<Option<Connection>>>,
    /// Wakes listeners of this process only: SQLite does not notify other processes.
    pub(crate) wakes: Wakes,
}

impl SqliteStore {
    /// Opens a database. Creates it if there is none, and migrates it to the latest version.
    pub fn open(location: Location, options: SqliteOptions, now: Timestamp) -> Result<Self> {
        if let Location::File(path) = &location {
            file::create_if_absent(path)?;
        }
        let latest = latest_version(MIGRATIONS);
        let connection = open_checked(&location, options.synchronous, |current| {
            plan_steps(MIGRATIONS, current, latest).map(drop)
        })?;
        migrate_to_latest(&connection, now).in_database(&location)?;
        let clock = match options.lease_clock.clone() {
            Some(clock) => clock,
            None => lease_clock(&connection).in_database(&location)?,
        };
        Self::start(location, connection, options, clock)
    }

    /// Opens an existing database in the latest version, without a change to its schema.
    pub fn open_existing(location: Location, options: SqliteOptions) -> Result<Self> {
        let connection = open_checked(&location, options.synchronous, |current| {
            require_version(current, latest_version(MIGRATIONS))
        })?;
        let clock = match options.lease_clock.clone() {
            Some(clock) => clock,
            None => lease_clock_as_it_is(&connection).in_database(&location)?,
        };
        Self::start(location, connection, options, clock)
    }

    fn start(
        location: Location,
        connection: Connection,
        options: SqliteOptions,
        clock: SqliteLeaseClock,
    ) -> Result<Self> {
        let readers = match &location {
            Location::File(path) => Some(Readers::new(path.clone())),
            Location::Memory => None,
        };
        let writer = Writer::start(connection, options.writer)?;
        let wakes = Wakes::new();
        let (mode, watcher, counted) = (options.writer, Arc::default(), Arc::default());
        let SqliteOptions { min_free_bytes, synchronous, .. } = options;
        Ok(Self {
            location,
            readers,
            writer,
            mode,
            min_free_bytes,
            synchronous,
            clock,
            counted,
            watcher,
            wakes,
        })
    }

    /// Runs a write in a transaction. The closure runs a second time if another command of the
    /// group failed.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T> + Send + 'static,
    {
        self.writer.run(work).await.in_database(&self.location)
    }

    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T> + Send + 'static,
    {
        match (&self.readers, self.mode) {
            (None, _) => self.writer.run(work).await,
            (Some(readers), WriterMode::Inline) => readers.run_inline(work),
            (Some(readers), WriterMode::Thread) => readers.run(work).await,
        }
        .in_database(&self.location)
    }

    /// Reads on the connection that detects changes. A database in memory has only the writer's
    /// connection.
    pub(crate) async fn watch<T, F>(&self, mut work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T> + Send + 'static,
    {
        const DOING: &str = "watching";
        let Location::File(path) = self.location.clone() else { return self.read(work).await };
        let watcher = Arc::clone(&self.watcher);
        let mut watching = move || {
            let mut watcher = watcher.lock().unwrap_or_else(PoisonError::into_inner);
            let connection = match watcher.take() {
                Some(connection) => connection,
                None => open_reader(&path)?,
            };
            let outcome = work(&connection);
            *watcher = Some(connection);
            outcome
        };
        match self.mode {
            WriterMode::Inline => watching(),
            WriterMode::Thread => tokio::task::spawn_blocking(watching).await.map_err(|error| {
                Error::Unavailable { doing: DOING.to_owned(), source: error.into() }
            })?,
        }
        .in_database(&self.location)
    }

    /// Writes a consistent copy to a new file while the store is in use.
    pub async fn backup(&self, target: &Path) -> Result<()> {
        let doing = format!("backing up to {}", target.display());
        let Location::File(path) = &self.location else {
            let problem = "a database in memory has no file to back up".to_owned();
            return Err(Error::Refused { doing, problem, source: None });
        };
        let (path, target) = (path.clone(), target.to_owned());
        let copying = move || backup(&path, &target);
        match self.mode {
            WriterMode::Inline => copying(),
            WriterMode::Thread => tokio::task::spawn_blocking(copying)
                .await
                .map_err(|error| Error::Unavailable { doing, source: error.into() })?,
        }
    }
}

/// Opens a database for writing, after a check without writes that it is a complete Redrive
/// database in a supported version.
fn open_checked(
    location: &Location,
    synchronous: SqliteSync,
    check_version: impl FnOnce(u32) -> Result<()>,
) -> Result<Connection> {
    if let Location::File(path) = location {
        file::refuse_foreign(path)?;
    }
    let connection = connect(location).in_database(location)?;
    check_version(read_status(&connection).in_database(location)?.current())?;
    touch_tables(&connection).in_database(location)?;
    set_up_writer(&connection, location, synchronous).in_database(location)?;
    Ok(connection)
}

/// Reads a row of each table, so that an unreadable table fails the start and not the first run.
/// Only `integrity_problems` reads everything.
fn touch_tables(connection: &Connection) -> Result<()> {
    const DOING: &str = "looking at the tables";
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table'";
    let names: Vec<String> = read_rows(connection, DOING, tables, [], |row| row.get())?;
    for name in names {
        let any = format!("SELECT count(*) FROM (SELECT 1 FROM \"{name}\" NOT INDEXED LIMIT 1)");
        connection.query_row(&any, [], |_| Ok(())).doing(DOING)?;
    }
    Ok(())
}

/// Fails if the database does not answer, or was rolled back meanwhile.
fn ask(connection: &Connection) -> Result<()> {
    let schema = read_status(connection)?;
    let (found, needed) = (schema.current(), schema.latest());
    if found < needed { Err(Error::OlderSchema { found, needed }) } else { Ok(()) }
}

#[async_trait]
impl Store for SqliteStore {
    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.wakes.listen()
    }

    fn describe(&self) -> String {
        format!("SQLite {} at {}", rusqlite::version(), self.location)
    }

    /// Opens a new connection, because an open one would not notice that the file was removed.
    async fn ping(&self) -> Result<()> {
        let Location::File(path) = self.location.clone() else {
            return self.read(ask).await;
        };
        let min_free_bytes = self.min_free_bytes;
        let asking = move || {
            open_reader(&path).and_then(|connection| ask(&connection))?;
            check_room(&path, min_free_bytes)
        };
        let answer = match self.mode {
            WriterMode::Inline => asking(),
            WriterMode::Thread => tokio::task::spawn_blocking(asking).await.map_err(|error| {
                Error::Unavailable { doing: "asking the database".to_owned(), source: error.into() }
            })?,
        };
        answer.in_database(&self.location)
    }

    async fn schema(&self) -> Result<SchemaStatus> {
        self.read(read_status).await
    }

    async fn durability_doubts(&self) -> Result<Vec<String>> {
        let normal = self.synchronous == SqliteSync::Normal;
        Ok(normal.then(|| "synchronous is normal".to_owned()).into_iter().collect())
    }

    async fn integrity_problems(&self) -> Result<Vec<String>> {
        self.read(|connection| {
            const DOING: &str = "checking the database";
            let integrity =
                read_rows(connection, DOING, "PRAGMA integrity_check", [], |row| row.get())?;
            let orphans = read_rows(connection, DOING, "PRAGMA foreign_key_check", [], |row| {
                let table: String = row.get()?;
                Ok(format!("{table} has a row whose parent is missing"))
            })?;
            let found = integrity.into_iter().chain(orphans);
            Ok(found.filter(|line: &String| line != "ok").collect())
        })
        .await
    }
}
