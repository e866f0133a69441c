//! Schema migrations, up and down.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    Direction, Error, Migration, MigrationStep, Migrator, ReadColumn, Result, SchemaStatus,
    plan_steps,
};

use crate::{
    PostgresOptions,
    bound_query::{SqlQuery, bind, sql_query},
    columns::{Micros, read_records, read_rows},
    pool::{ConnectionPool, ConnectionTimeouts},
    session::Session,
    url::ConnectionTarget,
};

pub const MIGRATIONS: &[Migration] = redrive_store::migrations!();

/// How long one migration may take, and how long it waits for another process's.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(3_600);

/// The advisory lock that migrations take: `redrive` in ASCII.
const LOCK: i64 = 0x72_65_64_72_69_76_65;

const LOCK_MIGRATIONS: SqlQuery =
    sql_query!("lock_migrations", "SELECT pg_advisory_xact_lock(:lock)");

/// `schema_migrations` if there is one, or else any relation of the schema.
const FIRST_RELATION: SqlQuery = sql_query!(
    "first_relation",
    "SELECT relname FROM pg_catalog.pg_class
     WHERE relnamespace = pg_catalog.to_regnamespace('redrive')
         AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
     ORDER BY relname = 'schema_migrations' DESC, relname LIMIT 1"
);

const MIGRATION_SETTING: SqlQuery = sql_query!(
    "migration_setting",
    "SELECT pg_catalog.current_setting('server_encoding'), current_user::text,
        pg_catalog.to_regnamespace('redrive') IS NOT NULL,
        pg_catalog.to_regclass('redrive.schema_migrations') IS NOT NULL"
);

const APPLIED_MIGRATIONS: SqlQuery = sql_query!(
    "applied_migrations",
    "SELECT version, name, applied_at FROM redrive.schema_migrations ORDER BY version"
);

const INSERT_MIGRATION: SqlQuery = sql_query!(
    "insert_migration",
    "INSERT INTO redrive.schema_migrations (version, name, applied_at)
     VALUES (:version, :name, :applied_at)"
);

const DELETE_MIGRATION: SqlQuery = sql_query!(
    "delete_migration",
    "DELETE FROM redrive.schema_migrations WHERE version = :version"
);

/// Changes the schema `redrive` of a PostgreSQL database.
///
/// Rolling back to version 0 leaves the schema with its bookkeeping alone, so that permissions that an
/// administrator granted on it stay.
#[derive(Debug, Clone)]
pub struct PostgresMigrator {
    target: ConnectionTarget,
    timeouts: ConnectionTimeouts,
}

impl PostgresMigrator {
    /// The database must exist. Connects on first use.
    pub fn new(url: &str, options: &PostgresOptions) -> Result<Self> {
        Ok(Self { target: ConnectionTarget::parse(url)?, timeouts: options.timeouts() })
    }

    async fn session(&self, doing: &'static str) -> Result<Session> {
        ConnectionPool::new(&self.target, 1, self.timeouts)?.session(doing).await
    }
}

#[async_trait]
impl Migrator for PostgresMigrator {
    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    async fn status(&self) -> Result<SchemaStatus> {
        let mut session = self.session(READING).await?;
        read_status(&mut session).await
    }

    async fn migrate_to(&self, version: u32, now: Timestamp) -> Result<Vec<MigrationStep>> {
        let mut session = self.session("migrating the database").await?;
        // The usual start has nothing to migrate and should not wait for the lock.
        let current = read_status(&mut session).await?.current();
        if plan_steps(MIGRATIONS, current, version)?.is_empty() {
            return Ok(Vec::new());
        }
        session.extend_time_limit(MIGRATION_TIMEOUT).await?;
        session.begin(bind!(LOCK_MIGRATIONS, lock => &LOCK)).await?;
        redrive_store::failpoint!("postgres.migrate.locked");
        // Queries queue behind a migration that waits for a table's lock, so the wait is short.
        let lock_timeout = self.timeouts.statement.as_millis().clamp(1, i32::MAX as u128);
        session.script(&format!("SET LOCAL lock_timeout = {lock_timeout}")).await?;
        let steps = run_steps(&mut session, version, now).await?;
        session.commit().await?;
        Ok(steps)
    }
}

const READING: &str = "reading the schema version";

/// Reads the applied migrations. Refuses a schema `redrive` that Redrive did not create.
pub(crate) async fn read_status(session: &mut Session) -> Result<SchemaStatus> {
    let found = session.query(bind!(FIRST_RELATION)).await?;
    let first: Vec<String> = read_rows(&found, READING, |row| row.get())?;
    match first.first().map(String::as_str) {
        None => return Ok(SchemaStatus { applied: Vec::new(), known: MIGRATIONS }),
        Some("schema_migrations") => {}
        Some(other) => {
            return Err(Error::NotOurs {
                doing: READING.to_owned(),
                problem: format!(
                    "the database has a schema redrive that is not Redrive's: it holds {other:?} \
                     and no schema_migrations. Nothing was changed. Name another database, or \
                     rename that schema"
                ),
                source: None,
            });
        }
    }
    let rows = session.query(bind!(APPLIED_MIGRATIONS)).await?;
    let applied = read_records(&rows, READING)?;
    Ok(SchemaStatus { applied, known: MIGRATIONS })
}

/// Plans again under the lock, because another process may have migrated in the meantime.
async fn run_steps(
    session: &mut Session,
    version: u32,
    now: Timestamp,
) -> Result<Vec<MigrationStep>> {
    let status = read_status(session).await?;
    let steps = plan_steps(MIGRATIONS, status.current(), version)?;
    prepare(session).await?;
    for step in &steps {
        let Migration { version, name, .. } = *step.migration;
        session.set_doing(match step.direction {
            Direction::Up => format!("applying migration {version:04} {name}"),
            Direction::Down => format!("rolling back migration {version:04} {name}"),
        });
        session.script(step.sql()).await?;
        redrive_store::failpoint!("postgres.migrate.step");
        let version = i64::from(version);
        match step.direction {
            Direction::Up => {
                let insert = bind!(
                    INSERT_MIGRATION,
                    version => &version,
                    name => &name,
                    applied_at => &Micros(now),
                );
                session.query(insert).await?;
            }
            Direction::Down => {
                session.query(bind!(DELETE_MIGRATION, version => &version)).await?;
            }
        }
        redrive_store::failpoint!("postgres.migrate.noted");
    }
    session.set_doing("migrating the database");
    Ok(steps)
}

/// Creates the schema and `schema_migrations` if they are missing. Where they exist, no permission to create
/// schemas is needed, so an administrator can create the schema for another user.
async fn prepare(session: &mut Session) -> Result<()> {
    let rows = session.query(bind!(MIGRATION_SETTING)).await?;
    let mut found: Vec<(String, String, bool, bool)> =
        read_rows(&rows, READING, |row| Ok((row.get()?, row.get()?, row.get()?, row.get()?)))?;
    let Some((encoding, user, schema, bookkeeping)) = found.pop() else {
        return Err(Error::misuse(READING, "the server gave no answer"));
    };
    if encoding != "UTF8" {
        return Err(Error::Refused {
            doing: "migrating the database".to_owned(),
            problem: format!(
                "the database's encoding is {encoding}, which cannot keep every text; create one \
                 with `createdb --encoding=UTF8 --template=template0 NAME`"
            ),
            source: None,
        });
    }
    if !schema {
        session.set_doing("creating the schema redrive");
        session.script("CREATE SCHEMA redrive").await.map_err(|error| match error {
            Error::Refused { doing, source, .. } => Error::Refused {
                doing,
                problem: format!(
                    "the user lacks the permission; let an administrator run \
                     `CREATE SCHEMA redrive AUTHORIZATION \"{user}\"` in this database"
                ),
                source,
            },
            error => error,
        })?;
    }
    if !bookkeeping {
        session.set_doing("creating the table redrive.schema_migrations");
        session
            .script(
                "CREATE TABLE redrive.schema_migrations (
                     version    bigint PRIMARY KEY,
                     name       text NOT NULL,
                     applied_at timestamptz NOT NULL
                 )",
            )
            .await?;
    }
    Ok(())
}
