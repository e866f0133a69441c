//! Implements [`Ledger`].

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::{AttemptNumber, Cause};
use redrive_store::{
    AttemptOutcome, AttemptRecord, Error, Ledger, LedgerPlace, Result, UnitKind, UnitRow,
};
use rusqlite::{
    CachedStatement, Connection,
    ffi::{SQLITE_CONSTRAINT_TRIGGER, SQLITE_CONSTRAINT_UNIQUE},
    params,
};

use crate::{
    SqliteStore,
    columns::{SqliteRow, duration_micros, micros, read_rows},
    error::{Doing, database},
    queries,
};

#[async_trait]
impl Ledger for SqliteStore {
    async fn append_attempts(&self, attempts: &[AttemptRecord]) -> Result<()> {
        let attempts = attempts.to_vec();
        self.write(move |connection| {
            let mut rows = LedgerRows::new(connection)?;
            attempts.iter().try_for_each(|attempt| rows.insert(attempt))
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
            read_rows(connection, "reading attempts", queries::ATTEMPTS_OF, params, read_attempt)
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
            read_rows(connection, "reading the ledger", queries::LEDGER_PAGE, params, read_attempt)
        })
        .await
    }
}

const WRITING: &str = "writing the ledger";

/// Inserts rows into the ledger. The statement is looked up once per batch, because the lookup
/// compares its whole text.
pub(crate) struct LedgerRows<'a>(CachedStatement<'a>);

impl<'a> LedgerRows<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Result<Self> {
        connection.prepare_cached(queries::INSERT_ATTEMPTS).doing(WRITING).map(Self)
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
            attempt.delay.map(duration_micros),
            attempt.worker,
            attempt.asked.map(duration_micros),
        ];
        let Err(source) = self.0.execute(row) else { return Ok(()) };
        Err(match source.sqlite_error().map(|error| error.extended_code) {
            Some(SQLITE_CONSTRAINT_TRIGGER | SQLITE_CONSTRAINT_UNIQUE) => Error::misuse(
                WRITING,
                format!("{}: attempt {} is there already", attempt.unit, attempt.attempt),
            ),
            _ => database(WRITING, source),
        })
    }
}

pub(crate) fn read_attempt(row: &mut SqliteRow<'_>) -> Result<AttemptRecord> {
    let kind = row.named("kind", UnitKind::from_name)?;
    Ok(AttemptRecord {
        unit: UnitRow { kind, id: row.get()?, stage: row.get()? },
        stage_config_hash: row.get()?,
        attempt: AttemptNumber(row.get()?),
        counted: row.get()?,
        run_id: row.get()?,
        started_at: row.timestamp()?,
        ended_at: row.timestamp()?,
        outcome: row.named("outcome", AttemptOutcome::from_name)?,
        class: row.get()?,
        code: row.get()?,
        message: row.get()?,
        fingerprint: row.get()?,
        cause: row.optional_named("cause", Cause::from_name)?,
        delay: row.get::<Option<u64>>()?.map(Duration::from_micros),
        worker: row.get()?,
        asked: row.get::<Option<u64>>()?.map(Duration::from_micros),
    })
}
