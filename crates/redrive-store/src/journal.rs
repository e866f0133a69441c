//! The journal: the append-only record of events and of every operator action.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Result, Written};

/// How long after its place was given out an entry may still appear: several statements may take their
/// whole time before they commit.
const SETTLED_AFTER: Duration = Duration::from_secs(120);

/// Something to remember.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// When.
    pub at: Timestamp,
    /// Who: an operator, a worker, the daemon.
    pub actor: String,
    /// What, as `kind.verb`: `run.giveup`, `upload.giveup`, `run.handback`.
    pub action: String,
    /// The unit it is about, written as [`redrive_core::Unit`] prints it.
    pub unit: Option<String>,
    /// The filter of an action on many, as JSON.
    pub filter: Option<String>,
    /// More, as JSON.
    pub details: String,
    /// An entry whose key is there already is ignored, so a fact is told once.
    pub dedupe_key: Option<String>,
}

/// An entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRecord {
    /// Its place in the journal.
    pub id: i64,
    /// What it says.
    pub entry: JournalEntry,
}

/// Which entries to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalFilter {
    /// About this unit alone.
    pub unit: Option<String>,
    /// With this action alone.
    pub action: Option<String>,
}

/// How far somebody has come who reads the journal on and on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderPlace {
    /// Up to here nothing can have been missed.
    pub settled: i64,
    /// Up to here everything was read that was there.
    pub seen: i64,
    /// When that was, on the store's clock.
    pub seen_at: Timestamp,
}

impl ReaderPlace {
    /// After everything was read up to a place, from [`settled`](Self::settled) on, by someone who began at
    /// a time. None as long as entries may still appear below what was seen last.
    pub fn moved(&self, end: i64, begun: Timestamp) -> Option<Self> {
        let since = begun.duration_since(self.seen_at).abs();
        (since.unsigned_abs() >= SETTLED_AFTER).then(|| Self {
            settled: self.seen,
            seen: end.max(self.seen),
            seen_at: begun,
        })
    }
}

/// The journal of a store.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Adds entries. Says for each whether it was added, or known already by its dedupe key.
    async fn append_journal(&self, entries: &[JournalEntry]) -> Result<Vec<bool>>;

    /// Entries by their place, after one, a page at a time. Places are given out as entries are
    /// written: with many writers an entry may appear a moment after one with a higher place.
    async fn journal_page(
        &self,
        filter: &JournalFilter,
        after: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>>;

    /// How far a reader has come. One that is new begins at the end of the journal.
    async fn journal_reader(&self, name: &str, now: Timestamp) -> Result<ReaderPlace>;

    /// Notes that a reader has come from one place to another. Stale if somebody else noted something
    /// meanwhile; then nothing is changed.
    async fn move_journal_reader(
        &self,
        name: &str,
        from: &ReaderPlace,
        to: &ReaderPlace,
    ) -> Result<Written>;
}
