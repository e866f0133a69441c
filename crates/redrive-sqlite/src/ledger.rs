//! Implements [`Ledger`].

use async_trait::async_trait;
use redrive_core::{AttemptNumber, Cause};
use redrive_store::{AttemptRecord, Error, Ledger, LedgerPlace, Result, UnitKind, UnitRow};
use rusqlite::{
    CachedStatement, Connection,
    ffi::{SQLITE_CONSTRAINT_TRIGGER, SQLITE_CONSTRAINT_UNIQUE},
    params,
};

use crate::{
    SqliteStore,
    causes::CauseCounts,
    columns::{micros, read_records},
    error::{Doing, database},
    queries,
};

#[async_trait]
impl Ledger for SqliteStore {
    async fn append_attempts(&self, attempts: &[AttemptRecord]) -> Result<()> {
        let attempts = attempts.to_vec();
        self.write(move |connection| {
            let mut rows = LedgerRows::new(connection)?;
            attempts.iter().try_for_each(|attempt| rows.insert(attempt))?;
            rows.finish()
        })
        .await
    }

    async fn attempts_of(
        &self,
        unit: &UnitRow,
        after: AttemptNumber,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        let unit = unit.clone();
        self.read(move |connection| {
            let params = params![unit.kind.name(), unit.id, unit.stage, after.0, limit];
            read_records(connection, "reading attempts", queries::ATTEMPTS_OF, params)
        })
        .await
    }

    async fn ledger_page(
        &self,
        kind: UnitKind,
        after: &LedgerPlace,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        let LedgerPlace { id, stage, attempt } = after.clone();
        self.read(move |connection| {
            let params = params![kind.name(), id, stage, attempt.0, limit];
            read_records(connection, "reading the ledger", queries::LEDGER_PAGE, params)
        })
        .await
    }
}

const WRITING: &str = "writing the ledger";

/// Inserts rows into the ledger, until [`Self::finish`]. The statement is looked up once per batch, because the lookup
/// compares its whole text.
pub(crate) struct LedgerRows<'a> {
    connection: &'a Connection,
    insert: CachedStatement<'a>,
    causes: CauseCounts,
}

impl<'a> LedgerRows<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Result<Self> {
        let insert = connection.prepare_cached(queries::INSERT_ATTEMPTS).doing(WRITING)?;
        Ok(Self { connection, insert, causes: CauseCounts::default() })
    }

    pub(crate) fn insert(&mut self, attempt: &AttemptRecord) -> Result<()> {
        let row = params![
            attempt.unit.kind.name(),
            attempt.unit.id,
            attempt.unit.stage,
            attempt.stage_config_hash,
            attempt.attempt.0,
            attempt.counted,
            attempt.run_id,
            micros(attempt.started_at),
            micros(attempt.ended_at),
            attempt.outcome.name(),
            attempt.class,
            attempt.code,
            attempt.message,
            attempt.fingerprint,
            attempt.cause.map(Cause::name),
            attempt.delay_us(),
            attempt.worker,
            attempt.asked_us(),
        ];
        let Err(source) = self.insert.execute(row) else {
            return self.causes.add(self.connection, attempt);
        };
        Err(match source.sqlite_error().map(|error| error.extended_code) {
            Some(SQLITE_CONSTRAINT_TRIGGER | SQLITE_CONSTRAINT_UNIQUE) => Error::misuse(
                WRITING,
                format!("{}: attempt {} is there already", attempt.unit, attempt.attempt),
            ),
            _ => database(WRITING, source),
        })
    }

    /// Counts the failures of the batch by cause.
    pub(crate) fn finish(self) -> Result<()> {
        self.causes.write(self.connection)
    }
}
