//! Migrates the schema up and down.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    Direction, Migration, MigrationStep, Migrator, Result, SchemaStatus, latest_version, plan_steps,
};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::{
    Location, SqliteSync,
    columns::{micros, read_records},
    connection::{connect, set_up_writer},
    error::{Doing, In},
    file,
};

/// In order.
pub const MIGRATIONS: &[Migration] = redrive_store::migrations!();

const MIGRATING: &str = "migrating the schema";

/// Changes the schema of an SQLite database.
#[derive(Debug, Clone)]
pub struct SqliteMigrator {
    location: Location,
}

impl SqliteMigrator {
    /// The database need not exist; [`Migrator::migrate_to`] creates it.
    pub fn new(location: Location) -> Self {
        Self { location }
    }

    fn open(&self) -> Result<Connection> {
        if let Location::File(path) = &self.location {
            file::refuse_foreign(path)?;
        }
        connect(&self.location).in_database(&self.location)
    }
}

#[async_trait]
impl Migrator for SqliteMigrator {
    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    async fn status(&self) -> Result<SchemaStatus> {
        if let Location::File(path) = &self.location
            && !file::is_there(path)?
        {
            return Ok(SchemaStatus { applied: Vec::new(), known: MIGRATIONS });
        }
        read_status(&self.open()?).in_database(&self.location)
    }

    async fn migrate_to(&self, version: u32, now: Timestamp) -> Result<Vec<MigrationStep>> {
        // An invalid version must not leave a file behind.
        plan_steps(MIGRATIONS, 0, version)?;
        if let Location::File(path) = &self.location {
            // Migrating a missing database to version 0 must not create a file.
            if version == 0 && !file::is_there(path)? {
                return Ok(Vec::new());
            }
            file::create_if_absent(path)?;
        }
        let connection = self.open()?;
        let current = read_status(&connection).in_database(&self.location)?.current();
        plan_steps(MIGRATIONS, current, version)?;
        set_up_writer(&connection, &self.location, SqliteSync::Full).in_database(&self.location)?;
        migrate(&connection, version, now).in_database(&self.location)
    }
}

pub(crate) fn read_status(connection: &Connection) -> Result<SchemaStatus> {
    const DOING: &str = "reading the schema version";
    let known: bool = connection
        .query_row(
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'",
            [],
            |row| row.get(0),
        )
        .doing(DOING)?;
    if !known {
        return Ok(SchemaStatus { applied: Vec::new(), known: MIGRATIONS });
    }
    let sql = "SELECT version, name, applied_at FROM schema_migrations ORDER BY version";
    let applied = read_records(connection, DOING, sql, [])?;
    Ok(SchemaStatus { applied, known: MIGRATIONS })
}

pub(crate) fn migrate_to_latest(
    connection: &Connection,
    now: Timestamp,
) -> Result<Vec<MigrationStep>> {
    migrate(connection, latest_version(MIGRATIONS), now)
}

fn migrate(connection: &Connection, version: u32, now: Timestamp) -> Result<Vec<MigrationStep>> {
    // This check saves the write lock when there is nothing to do, which is the usual case.
    if plan_steps(MIGRATIONS, read_status(connection)?.current(), version)?.is_empty() {
        return Ok(Vec::new());
    }
    let transaction =
        Transaction::new_unchecked(connection, TransactionBehavior::Immediate).doing(MIGRATING)?;
    // The transaction rolls back if it is dropped on an error.
    let steps = run_steps(&transaction, version, now)?;
    transaction.commit().doing(MIGRATING)?;
    redrive_store::failpoint!("sqlite.migrate.committed");
    Ok(steps)
}

/// Plans again under the lock, because another process may have migrated.
fn run_steps(connection: &Connection, version: u32, now: Timestamp) -> Result<Vec<MigrationStep>> {
    let steps = plan_steps(MIGRATIONS, read_status(connection)?.current(), version)?;
    connection
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS schema_migrations (
                 version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL
             ) STRICT",
        )
        .doing(MIGRATING)?;
    for step in &steps {
        let Migration { version, name, .. } = *step.migration;
        let doing = match step.direction {
            Direction::Up => format!("applying migration {version:04} {name}"),
            Direction::Down => format!("rolling back migration {version:04} {name}"),
        };
        connection.execute_batch(step.sql()).doing(&doing)?;
        redrive_store::failpoint!("sqlite.migrate.step");
        match step.direction {
            Direction::Up => connection.execute(
                "INSERT INTO schema_migrations (version, name, applied_at) VALUES (?1, ?2, ?3)",
                params![version, name, micros(now)],
            ),
            Direction::Down => connection
                .execute("DELETE FROM schema_migrations WHERE version = ?1", params![version]),
        }
        .doing(&doing)?;
        redrive_store::failpoint!("sqlite.migrate.noted");
    }
    Ok(steps)
}
