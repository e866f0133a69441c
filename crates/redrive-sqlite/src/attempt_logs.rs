//! Implements [`AttemptLogs`].

use async_trait::async_trait;
use redrive_core::AttemptNumber;
use redrive_store::{AttemptLog, AttemptLogs, LoggedAttempt, Result, UnitRow};
use rusqlite::params;

use crate::{
    SqliteStore,
    columns::{micros, read_records},
    error::Doing,
    queries,
};

const WRITING: &str = "writing the logs of attempts";
const READING: &str = "reading the log of an attempt";

#[async_trait]
impl AttemptLogs for SqliteStore {
    async fn write_logs(&self, logs: &[AttemptLog]) -> Result<()> {
        let logs = logs.to_vec();
        self.write(move |connection| {
            let mut write = connection.prepare_cached(queries::WRITE_LOGS).doing(WRITING)?;
            for log in &logs {
                let AttemptLog { unit, attempt, epoch, worker, printed, written_at, text } = log;
                let (kind, at) = (unit.kind.name(), micros(*written_at));
                let row = params![
                    kind, unit.id, unit.stage, attempt.0, epoch.0, worker, printed, at, text
                ];
                write.execute(row).doing(WRITING)?;
            }
            Ok(())
        })
        .await
    }

    async fn log_of(&self, unit: &UnitRow, attempt: AttemptNumber) -> Result<Option<AttemptLog>> {
        let unit = unit.clone();
        self.read(move |connection| {
            let own = params![unit.kind.name(), unit.id, unit.stage, attempt.0];
            let found = read_records(connection, READING, queries::LOG_OF_ATTEMPT, own)?;
            Ok(found.into_iter().next())
        })
        .await
    }

    async fn logged_attempts(&self, unit: &UnitRow, limit: u32) -> Result<Vec<LoggedAttempt>> {
        let unit = unit.clone();
        self.read(move |connection| {
            let own = params![unit.kind.name(), unit.id, unit.stage, limit];
            read_records(connection, READING, queries::LOGGED_ATTEMPTS, own)
        })
        .await
    }
}
