//! The suite every store runs.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_conformance::suite::{Fixture, RawSql};
use tokio_postgres::Client;

use crate::server::Database;

/// A connection of our own to the same database.
struct Raw(Client);

#[async_trait]
impl RawSql for Raw {
    async fn execute(&self, sql: &str) -> Result<(), String> {
        self.0.batch_execute(sql).await.map_err(|error| {
            error
                .as_db_error()
                .map_or_else(|| error.to_string(), |error| error.message().to_owned())
        })
    }
}

async fn fresh() -> Fixture {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    // The suite's statements are those of both databases, and SQLite has no schemas.
    raw.batch_execute("SET search_path = redrive").await.unwrap();
    Fixture { store: Arc::new(database.store().await), raw: Box::new(Raw(raw)) }
}

redrive_conformance::conformance_tests!(super::fresh);
