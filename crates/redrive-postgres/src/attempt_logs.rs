//! Implements [`AttemptLogs`].

use async_trait::async_trait;
use redrive_core::AttemptNumber;
use redrive_store::{AttemptLog, AttemptLogs, LoggedAttempt, Result, UnitRow};

use crate::{
    PostgresStore,
    batch::each,
    bound_query::bind,
    columns::{Micros, read_records},
    queries,
};

const READING: &str = "reading the log of an attempt";

#[async_trait]
impl AttemptLogs for PostgresStore {
    async fn write_logs(&self, logs: &[AttemptLog]) -> Result<()> {
        if logs.is_empty() {
            return Ok(());
        }
        let mut session = self.session("writing the logs of attempts").await?;
        let write = bind!(
            queries::WRITE_LOGS,
            kind => &each(logs, |log| log.unit.kind.name()),
            unit_id => &each(logs, |log| log.unit.id),
            stage => &each(logs, |log| log.unit.stage.as_str()),
            attempt => &each(logs, |log| i64::from(log.attempt.0)),
            epoch => &each(logs, |log| log.epoch.0),
            worker => &each(logs, |log| log.worker.as_str()),
            printed => &each(logs, |log| i64::try_from(log.printed).unwrap_or(i64::MAX)),
            written_at => &each(logs, |log| Micros(log.written_at)),
            log => &each(logs, |log| log.text.as_str()),
        );
        session.query(write).await.map(drop)
    }

    async fn log_of(&self, unit: &UnitRow, attempt: AttemptNumber) -> Result<Option<AttemptLog>> {
        let mut session = self.session(READING).await?;
        let found = bind!(
            queries::LOG_OF_ATTEMPT,
            kind => &unit.kind.name(),
            unit_id => &unit.id,
            stage => &unit.stage,
            attempt => &i64::from(attempt.0),
        );
        let rows = session.query(found).await?;
        Ok(read_records(&rows, READING)?.into_iter().next())
    }

    async fn logged_attempts(&self, unit: &UnitRow, limit: u32) -> Result<Vec<LoggedAttempt>> {
        let mut session = self.session(READING).await?;
        let found = bind!(
            queries::LOGGED_ATTEMPTS,
            kind => &unit.kind.name(),
            unit_id => &unit.id,
            stage => &unit.stage,
            limit => &i64::from(limit),
        );
        read_records(&session.query(found).await?, READING)
    }
}
