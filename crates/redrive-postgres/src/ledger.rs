//! The ledger: all attempts.

use crate::{
    PostgresStore,
    batch::each,
    bound_query::{bind, columns},
    causes::FailureColumns,
    columns::{Micros, read_records},
    queries,
};
use async_trait::async_trait;
use redrive_core::{AttemptNumber, Cause};
use redrive_store::{AttemptRecord, Ledger, LedgerPlace, Result, UnitKind, UnitRow};

#[async_trait]
impl Ledger for PostgresStore {
    async fn append_attempts(&self, attempts: &[AttemptRecord]) -> Result<()> {
        if attempts.is_empty() {
            return Ok(());
        }
        let mut session = self.session("writing the ledger").await?;
        let attempts = each(attempts, |attempt| attempt);
        let columns = AttemptColumns::of(&attempts);
        let failures = FailureColumns::of(attempts.iter().copied());
        let writes = [
            bind!(queries::INSERT_ATTEMPTS, ..AttemptColumns(columns)),
            bind!(queries::RECORD_CAUSES, in_ledger => &true, ..FailureColumns(failures)),
        ];
        session.transaction(&writes).await.map(drop)
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
            .query(bind!(
                queries::ATTEMPTS_OF,
                kind => &unit.kind.name(),
                unit_id => &unit.id,
                stage => &unit.stage,
                after_attempt => &i64::from(after.0),
                limit => &i64::from(limit),
            ))
            .await?;
        read_records(&rows, DOING)
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
            .query(bind!(
                queries::LEDGER_PAGE,
                kind => &kind.name(),
                after_unit => id,
                after_stage => stage,
                after_attempt => &i64::from(attempt.0),
                limit => &i64::from(limit),
            ))
            .await?;
        read_records(&rows, DOING)
    }
}

columns! {
    /// Rows of the ledger as arrays.
    pub(crate) struct AttemptColumns<'a> {
        kind: Vec<&'static str>,
        unit_id: Vec<i64>,
        stage: Vec<&'a str>,
        stage_config_hash: Vec<Option<&'a str>>,
        attempt: Vec<i64>,
        counted: Vec<bool>,
        run_id: Vec<Option<&'a str>>,
        started_at: Vec<Micros>,
        ended_at: Vec<Micros>,
        outcome: Vec<&'static str>,
        class: Vec<Option<&'a str>>,
        code: Vec<Option<&'a str>>,
        message: Vec<Option<&'a str>>,
        fingerprint: Vec<Option<&'a str>>,
        cause: Vec<Option<&'static str>>,
        delay_us: Vec<Option<i64>>,
        worker: Vec<&'a str>,
        asked_us: Vec<Option<i64>>,
    }
}

impl<'a> AttemptColumns<'a> {
    pub(crate) fn of(attempts: &[&'a AttemptRecord]) -> Self {
        Self {
            kind: each(attempts, |row| row.unit.kind.name()),
            unit_id: each(attempts, |row| row.unit.id),
            stage: each(attempts, |row| row.unit.stage.as_str()),
            stage_config_hash: each(attempts, |row| row.stage_config_hash.as_deref()),
            attempt: each(attempts, |row| i64::from(row.attempt.0)),
            counted: each(attempts, |row| row.counted),
            run_id: each(attempts, |row| row.run_id.as_deref()),
            started_at: each(attempts, |row| Micros(row.started_at)),
            ended_at: each(attempts, |row| Micros(row.ended_at)),
            outcome: each(attempts, |row| row.outcome.name()),
            class: each(attempts, |row| row.class.as_deref()),
            code: each(attempts, |row| row.code.as_deref()),
            message: each(attempts, |row| row.message.as_deref()),
            fingerprint: each(attempts, |row| row.fingerprint.as_deref()),
            cause: each(attempts, |row| row.cause.map(Cause::name)),
            delay_us: each(attempts, |row| row.delay_us()),
            worker: each(attempts, |row| row.worker.as_str()),
            asked_us: each(attempts, |row| row.asked_us()),
        }
    }
}
