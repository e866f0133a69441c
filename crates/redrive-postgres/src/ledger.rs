//! The ledger.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::{AttemptNumber, Cause};
use redrive_store::{
    AttemptOutcome, AttemptRecord, Ledger, LedgerPlace, Result, UnitKind, UnitRow,
};
use tokio_postgres::types::ToSql;

use crate::{
    PostgresStore,
    batch::{Column, each, references},
    columns::{Columns, Micros, duration_micros, read_rows},
    queries,
};

#[async_trait]
impl Ledger for PostgresStore {
    async fn append_attempts(&self, attempts: &[AttemptRecord]) -> Result<()> {
        if attempts.is_empty() {
            return Ok(());
        }
        let mut session = self.session("writing the ledger").await?;
        let attempts = each(attempts, |attempt| attempt);
        let columns = AttemptColumns::of(&attempts);
        session.query(queries::INSERT_ATTEMPTS, &columns.values()).await.map(drop)
    }

    async fn attempts_of(
        &self,
        unit: &UnitRow,
        after: AttemptNumber,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        const DOING: &str = "reading attempts";
        let mut session = self.session(DOING).await?;
        let rows = session
            .query(
                queries::ATTEMPTS_OF,
                &[&unit.kind.name(), &unit.id, &unit.stage, &i64::from(after.0), &i64::from(limit)],
            )
            .await?;
        read_rows(&rows, DOING, read_attempt)
    }

    async fn ledger_page(
        &self,
        kind: UnitKind,
        after: &LedgerPlace,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        const DOING: &str = "reading the ledger";
        let LedgerPlace { id, stage, attempt } = after;
        let mut session = self.session(DOING).await?;
        let rows = session
            .query(
                queries::LEDGER_PAGE,
                &[&kind.name(), id, stage, &i64::from(attempt.0), &i64::from(limit)],
            )
            .await?;
        read_rows(&rows, DOING, read_attempt)
    }
}

/// Attempts as arrays, in the order in which the statement takes them.
pub(crate) struct AttemptColumns<'a>([Column<'a>; 17]);

impl<'a> AttemptColumns<'a> {
    pub(crate) fn of(attempts: &[&'a AttemptRecord]) -> Self {
        Self([
            Box::new(each(attempts, |row| row.unit.kind.name())),
            Box::new(each(attempts, |row| row.unit.id)),
            Box::new(each(attempts, |row| row.unit.stage.as_str())),
            Box::new(each(attempts, |row| row.stage_config_hash.as_deref())),
            Box::new(each(attempts, |row| i64::from(row.attempt.0))),
            Box::new(each(attempts, |row| row.counted)),
            Box::new(each(attempts, |row| row.run_id.as_deref())),
            Box::new(each(attempts, |row| Micros(row.started_at))),
            Box::new(each(attempts, |row| Micros(row.ended_at))),
            Box::new(each(attempts, |row| row.outcome.name())),
            Box::new(each(attempts, |row| row.class.as_deref())),
            Box::new(each(attempts, |row| row.code.as_deref())),
            Box::new(each(attempts, |row| row.message.as_deref())),
            Box::new(each(attempts, |row| row.fingerprint.as_deref())),
            Box::new(each(attempts, |row| row.cause.map(Cause::name))),
            Box::new(each(attempts, |row| row.delay.map(duration_micros))),
            Box::new(each(attempts, |row| row.worker.as_str())),
        ])
    }

    pub(crate) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        references(&self.0)
    }
}

pub(crate) fn read_attempt(row: &mut Columns<'_>) -> Result<AttemptRecord> {
    let kind = row.named("kind", UnitKind::from_name)?;
    Ok(AttemptRecord {
        unit: UnitRow { kind, id: row.get()?, stage: row.get()? },
        stage_config_hash: row.get()?,
        attempt: AttemptNumber(row.count("attempt")?),
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
        delay: row.get::<Option<i64>>()?.map(|micros| Duration::from_micros(micros.unsigned_abs())),
        worker: row.get()?,
    })
}
