//! The suite every store runs, on a file, with the writer's thread and inline.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_conformance::suite::{Fixture, RawSql};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore, WriterMode};
use rusqlite::Connection;
use tempfile::TempDir;

/// A connection of our own to the same file, which lives as long as this.
struct File(TempDir);

#[async_trait]
impl RawSql for File {
    async fn execute(&self, sql: &str) -> Result<(), String> {
        let connection = Connection::open(self.0.path().join("store.db")).unwrap();
        connection.execute_batch(sql).map_err(|error| error.to_string())
    }
}

fn fixture(writer: WriterMode) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::File(folder.path().join("store.db"));
    let options = SqliteOptions { writer, ..SqliteOptions::default() };
    let store = SqliteStore::open(location, options, Timestamp::UNIX_EPOCH).unwrap();
    Fixture { store: Arc::new(store), raw: Box::new(File(folder)) }
}

mod with_a_writer_thread {
    async fn fresh() -> redrive_conformance::suite::Fixture {
        super::fixture(redrive_sqlite::WriterMode::Thread)
    }
    redrive_conformance::conformance_tests!(super::fresh);
}

mod inline {
    async fn fresh() -> redrive_conformance::suite::Fixture {
        super::fixture(redrive_sqlite::WriterMode::Inline)
    }
    redrive_conformance::conformance_tests!(super::fresh);
}
