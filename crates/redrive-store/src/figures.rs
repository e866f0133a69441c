//! Figures for dashboards and metrics: whether anything changed, and recent attempts.
//!
//! Dashboards read these figures again and again, so their cost does not grow with the age of the
//! store. The exception is the counts of units, which are read only after a change.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::ItemStatus;

use crate::{AttemptOutcome, FromRow, JournalFilter, JournalRecord, Result, RowReader, UnitKind};

/// The upper bounds of the duration buckets, in microseconds.
pub const TIME_BOUNDS_US: [u64; 8] =
    [5_000, 20_000, 100_000, 500_000, 2_000_000, 10_000_000, 60_000_000, 300_000_000];

/// The attempts in a range of the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// The range starts after this position.
    pub after: i64,
    /// The last position of the range; the next range starts after it.
    pub end: i64,
    pub counts: Vec<ActivityCount>,
}

/// Runs with a similar wait between the time they could start and their first attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LagCount {
    /// The number of [`TIME_BOUNDS_US`] that the wait reached.
    pub reached: u8,
    pub runs: u64,
    /// The sum of the waits.
    pub waited: Duration,
}

impl FromRow for LagCount {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            reached: row.count("reached")?,
            runs: row.count("runs")?,
            waited: Duration::from_micros(row.count("waited")?),
        })
    }
}

/// Attempts that ended in the same way within one minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityCount {
    pub kind: UnitKind,
    pub outcome: AttemptOutcome,
    pub class: Option<String>,
    /// Whether the attempts ended because their worker was lost.
    pub lost: bool,
    /// The number of [`TIME_BOUNDS_US`] that the duration reached.
    pub reached: u8,
    /// The minute in which the attempts ended.
    pub minute: Timestamp,
    pub attempts: u64,
    /// The sum of the durations.
    pub took: Duration,
}

impl FromRow for ActivityCount {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            kind: row.named("kind", UnitKind::from_name)?,
            outcome: row.named("outcome", AttemptOutcome::from_name)?,
            class: row.get()?,
            lost: row.get()?,
            reached: row.count("reached")?,
            minute: row.timestamp()?,
            attempts: row.count("attempts")?,
            took: Duration::from_micros(row.count("took")?),
        })
    }
}

#[async_trait]
pub trait Figures: Send + Sync {
    /// A number that changes after every write. It may also change without a write.
    async fn change_token(&self) -> Result<u64>;

    /// The attempts after a position in the ledger, limited to the `most` newest. With several
    /// writers an attempt may appear behind the position and be missed, which is acceptable for a
    /// dashboard.
    async fn activity(&self, after: i64, most: u32) -> Result<Activity>;

    /// The waits of runs whose first attempt is in a range of the ledger. Each run is looked up, so
    /// this call costs several times as much as [`activity`](Self::activity).
    async fn lags(&self, after: i64, end: i64) -> Result<Vec<LagCount>>;

    /// Journal entries before a position, the newest first, of at most [`MAX_PAGE_BYTES`](crate::MAX_PAGE_BYTES) and one
    /// entry.
    async fn newest_journal(
        &self,
        filter: &JournalFilter,
        before: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>>;

    async fn items_by_status(&self) -> Result<Vec<(ItemStatus, u64)>>;
}
