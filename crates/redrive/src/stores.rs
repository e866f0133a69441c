//! Opens stores by URL. No other module names the databases.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_engine::{Clock, SystemClock};
use redrive_postgres::{PostgresMigrator, PostgresOptions, PostgresStore};
use redrive_sqlite::{Location, SqliteMigrator, SqliteOptions, SqliteStore};
use redrive_store::{Migrator, Result, Store};

use crate::{
    InvalidStoreUrl, StoreUrl,
    config::{self, SynchronousMode},
};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error(transparent)]
    Url(#[from] InvalidStoreUrl),
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

/// Opens a store by its URL: `sqlite:PATH`, `sqlite::memory:` or `postgres://…`. A SQLite database is
/// created and migrated as needed; a PostgreSQL database must be migrated already.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, OpenError> {
    let url: StoreUrl = url.parse()?;
    Ok(open_store(&url, &config::StoreConfig::default(), SystemClock.now()).await?)
}

/// Opens a store. A SQLite database is created and migrated as needed. A PostgreSQL database must be
/// migrated already: many hosts share it, and no worker may change its schema silently.
pub async fn open_store(
    url: &StoreUrl,
    settings: &config::StoreConfig,
    now: Timestamp,
) -> Result<Arc<dyn Store>> {
    match location(url) {
        Some(location) => Ok(Arc::new(SqliteStore::open(location, sqlite_options(settings), now)?)),
        None => open_migrated_store(url, settings).await,
    }
}

/// Opens an existing store whose schema is up to date, without changing it.
pub async fn open_migrated_store(
    url: &StoreUrl,
    settings: &config::StoreConfig,
) -> Result<Arc<dyn Store>> {
    match url {
        StoreUrl::Postgres(url) => {
            let options = PostgresOptions::default();
            Ok(Arc::new(PostgresStore::connect(url.with_password(), options).await?))
        }
        StoreUrl::SqliteFile(path) => {
            let location = Location::File(path.clone());
            Ok(Arc::new(SqliteStore::open_existing(location, sqlite_options(settings))?))
        }
        StoreUrl::SqliteMemory => {
            Ok(Arc::new(SqliteStore::open_existing(Location::Memory, sqlite_options(settings))?))
        }
    }
}

/// The migrator of a store, which reads and changes its schema version.
pub fn migrator(url: &StoreUrl) -> Result<Box<dyn Migrator>> {
    Ok(match url {
        StoreUrl::Postgres(url) => {
            Box::new(PostgresMigrator::new(url.with_password(), &PostgresOptions::default())?)
        }
        StoreUrl::SqliteFile(path) => Box::new(SqliteMigrator::new(Location::File(path.clone()))),
        StoreUrl::SqliteMemory => Box::new(SqliteMigrator::new(Location::Memory)),
    })
}

fn location(url: &StoreUrl) -> Option<Location> {
    match url {
        StoreUrl::SqliteFile(path) => Some(Location::File(path.clone())),
        StoreUrl::SqliteMemory => Some(Location::Memory),
        StoreUrl::Postgres(_) => None,
    }
}

fn sqlite_options(settings: &config::StoreConfig) -> SqliteOptions {
    let synchronous = match settings.synchronous {
        SynchronousMode::Full => redrive_sqlite::SqliteSync::Full,
        SynchronousMode::Normal => redrive_sqlite::SqliteSync::Normal,
    };
    SqliteOptions { synchronous, ..SqliteOptions::default() }
}
