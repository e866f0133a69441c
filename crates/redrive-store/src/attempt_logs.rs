//! What handlers logged during attempts (LOG-1).
//!
//! Logs have a table of their own, so that claims and lists do not pay for them. A log is written while its attempt runs and
//! once more before the attempt is finished.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{AttemptNumber, Epoch};

use crate::{FromRow, Result, RowReader, UnitKind, UnitRow};

/// The log of one attempt at a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptLog {
    pub unit: UnitRow,
    pub attempt: AttemptNumber,
    /// Of the claim. An attempt that was released without being counted is repeated under a later epoch.
    pub epoch: Epoch,
    pub worker: String,
    /// How many bytes were logged, before anything was left out.
    pub printed: u64,
    pub written_at: Timestamp,
    /// Cleaned, and bounded: the beginning and the end.
    pub text: String,
}

impl FromRow for AttemptLog {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let kind = row.named("kind", UnitKind::from_name)?;
        Ok(Self {
            unit: UnitRow { kind, id: row.get()?, stage: row.get()? },
            attempt: AttemptNumber(row.count("attempt")?),
            epoch: Epoch(row.get()?),
            worker: row.get()?,
            printed: row.count("printed")?,
            written_at: row.timestamp()?,
            text: row.get()?,
        })
    }
}

/// An attempt that has a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedAttempt {
    pub attempt: AttemptNumber,
    /// How many bytes were logged, before anything was left out.
    pub printed: u64,
}

impl FromRow for LoggedAttempt {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self { attempt: AttemptNumber(row.count("attempt")?), printed: row.count("printed")? })
    }
}

#[async_trait]
pub trait AttemptLogs: Send + Sync {
    /// Writes logs, each unless the store has a later one of the attempt: of a later epoch, or with more. No two may be of the
    /// same attempt.
    async fn write_logs(&self, logs: &[AttemptLog]) -> Result<()>;

    async fn log_of(&self, unit: &UnitRow, attempt: AttemptNumber) -> Result<Option<AttemptLog>>;

    /// The newest attempts of a unit that have a log, the newest first.
    async fn logged_attempts(&self, unit: &UnitRow, limit: u32) -> Result<Vec<LoggedAttempt>>;
}
