//! The journal: the append-only record of events and operator actions.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::PlanId;
use serde_json::{Map, Value};

use crate::{FromRow, Result, RowReader, Written};

/// An entry may appear this long after its id was assigned, because a transaction with several
/// statements may commit late.
const SETTLED_AFTER: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    pub at: Timestamp,
    /// An operator, a worker or the daemon.
    pub actor: String,
    /// `kind.verb`, such as `run.giveup`, `upload.giveup` or `run.handback`.
    pub action: String,
    /// The text form of a [`redrive_core::Unit`].
    pub unit: Option<String>,
    /// The filter of an action on several units, as JSON.
    pub filter: Option<String>,
    /// JSON.
    pub details: String,
    /// An entry whose key exists already is ignored, so a fact is recorded once.
    pub dedupe_key: Option<String>,
}

impl JournalEntry {
    /// The entry with the plan that made the change, if one did.
    pub fn naming(mut self, plan: Option<PlanId>) -> Self {
        if let Some(plan) = plan
            && let Ok(mut details) = serde_json::from_str::<Map<String, Value>>(&self.details)
        {
            details.insert("plan".to_owned(), plan.0.into());
            self.details = Value::Object(details).to_string();
        }
        self
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRecord {
    pub id: i64,
    pub entry: JournalEntry,
}

impl FromRow for JournalRecord {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            id: row.get()?,
            entry: JournalEntry {
                at: row.timestamp()?,
                actor: row.get()?,
                action: row.get()?,
                unit: row.get()?,
                filter: row.get()?,
                details: row.get()?,
                dedupe_key: row.get()?,
            },
        })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalFilter {
    pub unit: Option<String>,
    pub action: Option<String>,
}

/// The position of a reader that follows the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderPlace {
    /// No entry up to this id can be missed.
    pub settled: i64,
    /// Every entry that existed up to this id was read.
    pub seen: i64,
    /// The time of that read, on the store's clock.
    pub seen_at: Timestamp,
}

impl FromRow for ReaderPlace {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self { settled: row.get()?, seen: row.get()?, seen_at: row.timestamp()? })
    }
}

impl ReaderPlace {
    /// The position after a read from [`settled`](Self::settled) up to `end` that started at a
    /// time. `None` while entries may still appear below the last `seen`.
    pub fn moved(&self, end: i64, begun: Timestamp) -> Option<Self> {
        let since = begun.duration_since(self.seen_at).abs();
        (since.unsigned_abs() >= SETTLED_AFTER).then(|| Self {
            settled: self.seen,
            seen: end.max(self.seen),
            seen_at: begun,
        })
    }
}

#[async_trait]
pub trait Journal: Send + Sync {
    /// Adds entries. Returns `false` for an entry whose dedupe key exists already.
    async fn append_journal(&self, entries: &[JournalEntry]) -> Result<Vec<bool>>;

    /// A page of entries with ids above `after`, by id, of at most [`MAX_PAGE_BYTES`](crate::MAX_PAGE_BYTES) and one
    /// entry. Ids are assigned before the commit: with several writers an entry may appear shortly after an entry with
    /// a higher id.
    async fn journal_page(
        &self,
        filter: &JournalFilter,
        after: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>>;

    /// The position of a reader. A new reader starts at the end of the journal.
    async fn journal_reader(&self, name: &str, now: Timestamp) -> Result<ReaderPlace>;

    /// Moves a reader. Stale, without a change, if another process moved the reader in the
    /// meantime.
    async fn move_journal_reader(
        &self,
        name: &str,
        from: &ReaderPlace,
        to: &ReaderPlace,
    ) -> Result<Written>;
}
