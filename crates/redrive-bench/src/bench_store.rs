//! The store that a benchmark fills and removes afterwards.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use redrive::{StoreUrl, SynchronousMode, migrator};
use redrive_engine::{Clock, SystemClock};
use redrive_postgres::{PostgresOptions, PostgresStore};
use redrive_store::Store;
use tokio::signal::unix::{SignalKind, signal};
use tokio_postgres::{Client, NoTls};

use crate::{
    error::{BenchError, failed},
    postgres_loop::PostgresLoop,
    run_backend::RunBackends,
    sqlite_loop::SqliteLoop,
};

/// The exit codes of a shell for a program that a signal ended.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// A store that no other process uses.
pub(crate) struct BenchStore {
    url: StoreUrl,
    connections: u16,
    /// Removed when dropped.
    _folder: Option<tempfile::TempDir>,
}

impl BenchStore {
    /// Creates a SQLite file in a new folder of the working directory, or the store that `--store` names, which
    /// must not exist yet.
    pub(crate) async fn create(
        store_url: Option<StoreUrl>,
        connections: u16,
    ) -> Result<Self, BenchError> {
        let created = |url, folder| Self { url, connections, _folder: folder };
        match store_url {
            None => {
                let folder = working_folder()?;
                let url = StoreUrl::SqliteFile(folder.path().join("bench.db"));
                Ok(created(url, Some(folder)))
            }
            Some(StoreUrl::SqliteFile(path)) if path.exists() => {
                Err(in_use(&path.display().to_string()))
            }
            Some(StoreUrl::SqliteMemory) => Err(BenchError::usage(
                "a SQLite database in memory has one connection, and the bare loop needs its own",
            )
            .help("use a file: --store sqlite:bench.db")),
            Some(url @ StoreUrl::SqliteFile(_)) => Ok(created(url, None)),
            Some(url @ StoreUrl::Postgres(_)) => {
                let migrator = migrator(&url).map_err(failed)?;
                if migrator.status().await.map_err(failed)?.current() != 0 {
                    return Err(in_use(&url.to_string()));
                }
                migrator.migrate_to(migrator.latest(), SystemClock.now()).await.map_err(failed)?;
                Ok(created(url, None))
            }
        }
    }

    pub(crate) fn url(&self) -> &StoreUrl {
        &self.url
    }

    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, BenchError> {
        open_store(&self.url, self.connections).await
    }

    /// The URL as another process needs it.
    pub(crate) fn url_with_password(&self) -> String {
        match &self.url {
            StoreUrl::Postgres(postgres) => postgres.with_password().to_owned(),
            url => url.to_string(),
        }
    }

    /// The bytes that PostgreSQL has written to its log.
    pub(crate) async fn log_position(&self) -> Result<Option<f64>, BenchError> {
        let StoreUrl::Postgres(postgres) = &self.url else { return Ok(None) };
        let client = connect(postgres.with_password()).await?;
        let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8";
        let row = client.query_one(sql, &[]).await.map_err(failed)?;
        row.try_get(0).map(Some).map_err(failed)
    }

    /// One bare loop per connection; SQLite has one writer.
    pub(crate) async fn bare_loops(&self) -> Result<RunBackends, BenchError> {
        let mut loops: RunBackends = Vec::new();
        match &self.url {
            StoreUrl::Postgres(postgres) => {
                for _ in 0..self.connections {
                    loops.push(Box::new(PostgresLoop::connect(postgres.with_password()).await?));
                }
            }
            StoreUrl::SqliteFile(path) => loops.push(Box::new(SqliteLoop::open(path)?)),
            StoreUrl::SqliteMemory => {}
        }
        Ok(loops)
    }

    /// How many tasks use the store at once: one per connection, and one for SQLite's single writer.
    pub(crate) fn users(&self) -> u16 {
        if self.url.is_sqlite() { 1 } else { self.connections }
    }

    /// Runs a benchmark, and removes the store after a result, an error or a signal.
    pub(crate) async fn measure<T>(
        self,
        benchmark: impl AsyncFnOnce(&Self) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let stopped = |exit_code| {
            Err(BenchError::with_exit_code(
                exit_code,
                "the benchmark was stopped; it has no results",
            ))
        };
        let measured = tokio::select! {
            measured = benchmark(&self) => measured,
            _ = interrupt.recv() => stopped(INTERRUPTED),
            _ = terminate.recv() => stopped(TERMINATED),
        };
        self.remove().await?;
        measured
    }

    async fn remove(self) -> Result<(), BenchError> {
        match &self.url {
            // Migrating down would rewrite every row.
            StoreUrl::Postgres(postgres) => {
                let client = connect(postgres.with_password()).await?;
                client.batch_execute("DROP SCHEMA redrive CASCADE").await.map_err(failed)
            }
            StoreUrl::SqliteFile(path) => {
                remove_files(path);
                Ok(())
            }
            StoreUrl::SqliteMemory => Ok(()),
        }
    }
}

async fn connect(url: &str) -> Result<Client, BenchError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    // The task ends with the client; a broken connection shows in the calls of the client.
    tokio::spawn(connection);
    Ok(client)
}

/// Opens a store whose schema is there, with so many connections to PostgreSQL.
pub(crate) async fn open_store(
    url: &StoreUrl,
    connections: u16,
) -> Result<Arc<dyn Store>, BenchError> {
    let StoreUrl::Postgres(postgres) = url else {
        let opened = redrive::open_store(url, SynchronousMode::default(), SystemClock.now());
        return opened.await.map_err(failed);
    };
    let max_connections = connections.into();
    let options = PostgresOptions { max_connections, ..PostgresOptions::default() };
    let store = PostgresStore::connect(postgres.with_password(), options).await;
    Ok(Arc::new(store.map_err(failed)?))
}

/// A new folder of the working directory, on the disk that the user wants to measure. Removed when dropped.
pub(crate) fn working_folder() -> Result<tempfile::TempDir, BenchError> {
    tempfile::Builder::new().prefix("redrive-bench-").tempdir_in(".").map_err(|error| {
        BenchError::new("cannot create a folder in the working directory").because(error)
    })
}

/// SQLite removes the log and its index with the last connection, unless a connection failed.
fn remove_files(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // A missing file needs no removal.
        _ = std::fs::remove_file(PathBuf::from(name));
    }
}

fn in_use(store: &str) -> BenchError {
    BenchError::refused(format!("{store} is in use; a benchmark needs a store of its own"))
        .help("name a new file, or a database without Redrive's schema")
}
