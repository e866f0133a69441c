//! Opens stores by URL. No other module names the databases.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_engine::{Clock, SystemClock};
#[cfg(feature = "postgres")]
use redrive_postgres::{PostgresMigrator, PostgresOptions, PostgresStore};
#[cfg(feature = "sqlite")]
use redrive_sqlite::{Location, SqliteMigrator, SqliteOptions, SqliteStore, SqliteSync};
use redrive_store::{Migrator, Result, Store};

use crate::{InvalidStoreUrl, StoreUrl};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error(transparent)]
    Url(#[from] InvalidStoreUrl),
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

/// When SQLite waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SynchronousMode {
    /// At every commit: a power cut loses nothing that was acknowledged.
    #[default]
    Full,
    /// At checkpoints: a power cut may lose the last commits, a crash of the program none.
    Normal,
}

/// Opens a store by its URL: `sqlite:PATH`, `sqlite::memory:` or `postgres://…`. A SQLite database is
/// created and migrated as needed; a PostgreSQL database must be migrated already.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, OpenError> {
    let url: StoreUrl = url.parse()?;
    Ok(open_store(&url, SynchronousMode::default(), SystemClock.now()).await?)
}

/// Opens a store. A SQLite database is created and migrated as needed. A PostgreSQL database must be
/// migrated already: many hosts share it, and no worker may change its schema silently.
pub async fn open_store(
    url: &StoreUrl,
    synchronous: SynchronousMode,
    now: Timestamp,
) -> Result<Arc<dyn Store>> {
    #[cfg(feature = "sqlite")]
    if let Some(location) = location(url) {
        return Ok(Arc::new(SqliteStore::open(location, sqlite_options(synchronous), now)?));
    }
    #[cfg(not(feature = "sqlite"))]
    let _ = now;
    open_migrated_store(url, synchronous).await
}

/// Opens an existing store whose schema is up to date, without changing it.
pub async fn open_migrated_store(
    url: &StoreUrl,
    synchronous: SynchronousMode,
) -> Result<Arc<dyn Store>> {
    #[cfg(feature = "sqlite")]
    if let Some(location) = location(url) {
        return Ok(Arc::new(SqliteStore::open_existing(location, sqlite_options(synchronous))?));
    }
    #[cfg(not(feature = "sqlite"))]
    let _ = synchronous;
    #[cfg(feature = "postgres")]
    if let StoreUrl::Postgres(url) = url {
        let options = PostgresOptions::default();
        return Ok(Arc::new(PostgresStore::connect(url.with_password(), options).await?));
    }
    Err(not_built(url))
}

/// The migrator of a store, which reads and changes its schema version.
pub fn migrator(url: &StoreUrl) -> Result<Box<dyn Migrator>> {
    #[cfg(feature = "sqlite")]
    if let Some(location) = location(url) {
        return Ok(Box::new(SqliteMigrator::new(location)));
    }
    #[cfg(feature = "postgres")]
    if let StoreUrl::Postgres(url) = url {
        let migrator = PostgresMigrator::new(url.with_password(), &PostgresOptions::default())?;
        return Ok(Box::new(migrator));
    }
    Err(not_built(url))
}

/// The error for a database whose feature is off.
fn not_built(url: &StoreUrl) -> redrive_store::Error {
    let feature = if url.is_sqlite() { "sqlite" } else { "postgres" };
    let what = format!("this program was built without the feature `{feature}`");
    redrive_store::Error::misuse("opening the store", what)
}

#[cfg(feature = "sqlite")]
fn location(url: &StoreUrl) -> Option<Location> {
    match url {
        StoreUrl::SqliteFile(path) => Some(Location::File(path.clone())),
        StoreUrl::SqliteMemory => Some(Location::Memory),
        StoreUrl::Postgres(_) => None,
    }
}

#[cfg(feature = "sqlite")]
fn sqlite_options(synchronous: SynchronousMode) -> SqliteOptions {
    let synchronous = match synchronous {
        SynchronousMode::Full => SqliteSync::Full,
        SynchronousMode::Normal => SqliteSync::Normal,
    };
    SqliteOptions { synchronous, ..SqliteOptions::default() }
}
