//! The journal: the append-only record of events and of every operator action.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::Result;

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
}
