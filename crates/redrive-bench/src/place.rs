//! Where a measurement is made: a store of its own, gone afterwards.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use redrive::{StoreUrl, config, migrator, open_store};
use redrive_engine::{Clock, SystemClock};
use redrive_postgres::{PostgresOptions, PostgresStore};
use redrive_store::Store;

use super::{
    contender::{Side, failed},
    postgres_loop::PostgresLoop,
    sqlite_loop::SqliteLoop,
};
use crate::{
    context::Context,
    exit::{Exit, Failure},
    signals::Signals,
};

/// A store that nobody else uses.
pub(crate) struct Place {
    url: StoreUrl,
    connections: u16,
    /// Goes with the place, and the file in it.
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    /// A new file in a new folder here; or the store that `--store` names, which must be new.
    pub(crate) async fn new(context: &Context, connections: u16) -> Result<Self, Failure> {
        let place = |url, folder| Self { url, connections, _folder: folder };
        match context.store_flag()?.map(|store| store.url) {
            None => {
                let folder =
                    tempfile::Builder::new().prefix("redrive-bench-").tempdir_in(".").map_err(
                        |error| Failure::new(Exit::Error, "cannot make a folder").because(error),
                    )?;
                let url = StoreUrl::SqliteFile(folder.path().join("bench.db"));
                Ok(place(url, Some(folder)))
            }
            Some(StoreUrl::SqliteFile(path)) if path.exists() => {
                Err(refused(&path.display().to_string()))
            }
            Some(StoreUrl::SqliteMemory) => Err(Failure::usage(
                "a database in memory has one connection, and the bare loop needs its own",
            )),
            Some(url @ StoreUrl::SqliteFile(_)) => Ok(place(url, None)),
            Some(url @ StoreUrl::Postgres(_)) => {
                let migrator = migrator(&url).map_err(failed)?;
                if migrator.status().await.map_err(failed)?.current() != 0 {
                    return Err(refused(&url.to_string()));
                }
                migrator.migrate_to(migrator.latest(), SystemClock.now()).await.map_err(failed)?;
                Ok(place(url, None))
            }
        }
    }

    /// Where it is.
    pub(super) fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// Redrive's store there.
    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>, Failure> {
        let StoreUrl::Postgres(postgres) = &self.url else {
            let settings = config::StoreConfig::default();
            return open_store(&self.url, &settings, SystemClock.now()).await.map_err(failed);
        };
        let max_connections = self.connections.into();
        let options = PostgresOptions { max_connections, ..PostgresOptions::default() };
        let store = PostgresStore::connect(postgres.with_password(), options).await;
        Ok(Arc::new(store.map_err(failed)?))
    }

    /// Bare loops there, one per connection. SQLite has one writer.
    pub(crate) async fn bare(&self) -> Result<Side, Failure> {
        let mut side: Side = Vec::new();
        match &self.url {
            StoreUrl::Postgres(postgres) => {
                for _ in 0..self.connections {
                    side.push(Box::new(PostgresLoop::connect(postgres.with_password()).await?));
                }
            }
            StoreUrl::SqliteFile(path) => side.push(Box::new(SqliteLoop::open(path)?)),
            StoreUrl::SqliteMemory => {}
        }
        Ok(side)
    }

    /// How many users of the store measure at once.
    pub(crate) fn users(&self) -> u16 {
        if self.url.is_sqlite() { 1 } else { self.connections }
    }

    /// Measures there, and removes what was made, whatever becomes of it.
    pub(crate) async fn measured<T>(
        self,
        measure: impl AsyncFnOnce(&Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut signals = Signals::new()?;
        let measured = tokio::select! {
            measured = measure(&self) => measured,
            exit = signals.next() => Err(Failure::new(exit, "stopped; there are no figures")),
        };
        self.remove().await?;
        measured
    }

    async fn remove(self) -> Result<(), Failure> {
        match &self.url {
            StoreUrl::Postgres(_) => {
                let migrator = migrator(&self.url).map_err(failed)?;
                migrator.migrate_to(0, SystemClock.now()).await.map(drop).map_err(failed)
            }
            StoreUrl::SqliteFile(path) => {
                remove_file(path);
                Ok(())
            }
            StoreUrl::SqliteMemory => Ok(()),
        }
    }
}

/// The log and its index go with the last connection, but not if that failed.
fn remove_file(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // What is not there need not be removed.
        _ = std::fs::remove_file(PathBuf::from(name));
    }
}

fn refused(store: &str) -> Failure {
    Failure::new(
        Exit::Refused,
        format!("{store} is in use; a measurement needs a store of its own"),
    )
    .help("name a new file, or a database that has nothing of Redrive's")
}
