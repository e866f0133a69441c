//! Figures for those who watch: whether anything changed, and what was attempted lately.
//!
//! They are read again and again, so none of them costs more the longer a store has been in use, except the
//! counts of units, which are read only when something changed.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::ItemStatus;

use crate::{AttemptOutcome, JournalFilter, JournalRecord, Result, UnitKind};

/// Where lengths of time are told apart, in microseconds: shorter than the first, the second, and so on.
pub const TIME_BOUNDS_US: [u64; 8] =
    [5_000, 20_000, 100_000, 500_000, 2_000_000, 10_000_000, 60_000_000, 300_000_000];

/// What was attempted in a stretch of the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// After which place the stretch begins.
    pub after: i64,
    /// Where the stretch ends: the next one begins after it.
    pub end: i64,
    /// How many attempts there were.
    pub counts: Vec<ActivityCount>,
    /// What failures had in common, the most frequent first.
    pub causes: Vec<RecentCause>,
}

/// Runs that waited about as long for their first attempt, from when they could begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LagCount {
    /// How many of [`TIME_BOUNDS_US`] they reached.
    pub reached: u8,
    /// How many runs.
    pub runs: u64,
    /// How long they waited, all together.
    pub waited: Duration,
}

/// Attempts that ended alike within a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityCount {
    /// Of what kind of unit.
    pub kind: UnitKind,
    /// How they ended.
    pub outcome: AttemptOutcome,
    /// The class of their failures.
    pub class: Option<String>,
    /// Whether they ended because their worker was lost.
    pub lost: bool,
    /// How many of [`TIME_BOUNDS_US`] they lasted for.
    pub reached: u8,
    /// The minute in which they ended.
    pub minute: Timestamp,
    /// How many.
    pub attempts: u64,
    /// How long they took, all together.
    pub took: Duration,
}

/// Failures that have one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentCause {
    /// Of what kind of unit.
    pub kind: UnitKind,
    /// What they share.
    pub fingerprint: String,
    /// Their code.
    pub code: String,
    /// What the last of them said.
    pub message: String,
    /// The unit it was of.
    pub unit_id: i64,
    /// How many.
    pub attempts: u64,
    /// When the last of them ended.
    pub last_at: Timestamp,
}

/// What watchers read.
#[async_trait]
pub trait Figures: Send + Sync {
    /// A number that is another one after anybody wrote anything. It may be another one without reason.
    async fn change_token(&self) -> Result<u64>;

    /// What was attempted after a place in the ledger, no more than the `most` newest attempts of that. With
    /// many writers an attempt may be written behind the place and be missed: these are figures for people.
    async fn activity(&self, after: i64, most: u32) -> Result<Activity>;

    /// How long runs waited that were first attempted in a stretch of the ledger. Each of them is looked up, so
    /// that this costs several times what [`activity`](Self::activity) does.
    async fn lags(&self, after: i64, end: i64) -> Result<Vec<LagCount>>;

    /// Entries of the journal before one, the newest first.
    async fn newest_journal(
        &self,
        filter: &JournalFilter,
        before: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>>;

    /// How many items have each status, over all uploads.
    async fn items_by_status(&self) -> Result<Vec<(ItemStatus, u64)>>;
}
