//! Pruning: the one way by which anything leaves the ledger (OPS-8).
//!
//! What may go is finished and old: nothing has happened to it since a moment. Whoever prunes has
//! written it down elsewhere, has said so in the journal by [`start_entry`](PruneRecord::start_entry), and
//! names what was written down. A store removes of that what is still as it was, and the ledger lets
//! rows go only in a transaction that names such an entry.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{Epoch, RunId, SampleId};
use serde_json::{Value, json};

use crate::{
    AttemptRecord, JournalEntry, LedgerPlace, Operator, Result, RunRecord, SampleRecord, UnitKind,
};

/// What may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneFilter {
    /// What has not been touched since: every attempt and every entry of the journal about a run is
    /// older, and so is the end of the pipeline run that a sample belongs to.
    pub before: Timestamp,
    /// Runs of this queue alone.
    pub queue: Option<String>,
    /// Samples of this pipeline alone.
    pub pipeline: Option<String>,
}

impl PruneFilter {
    /// Whether runs may go: not if only a pipeline is named.
    pub fn takes_runs(&self) -> bool {
        self.pipeline.is_none() || self.queue.is_some()
    }

    /// Whether samples may go: not if only a queue is named.
    pub fn takes_samples(&self) -> bool {
        self.queue.is_none() || self.pipeline.is_some()
    }
}

/// A unit as it was written down before it goes. One that has changed since stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportedUnit {
    /// The id of its row.
    pub id: i64,
    /// How many attempts it had; those of a sample are the ones at its stage.
    pub attempts: u32,
    /// The last epoch it was held under.
    pub epoch: Epoch,
}

/// How much is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Runs or samples.
    pub units: u64,
    /// Their rows of the ledger.
    pub attempts: u64,
}

/// Samples of a pipeline run that are gone. The counts of the run still have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrunedSamples {
    /// That had succeeded.
    pub succeeded: u64,
    /// That had been passed over.
    pub skipped: u64,
    /// That were dead letters.
    pub dlq: u64,
}

impl PrunedSamples {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.succeeded.saturating_add(self.skipped).saturating_add(self.dlq)
    }
}

/// A prune as the journal tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct PruneRecord {
    /// Its name, which no other has.
    pub name: String,
    /// What may go.
    pub filter: PruneFilter,
    /// Who asked for it.
    pub by: Operator,
    /// The files it was written to, each with its name, rows and hash.
    pub files: Value,
}

impl PruneRecord {
    /// What its entry is known by, and what a transaction that removes rows has to name.
    pub fn key(&self) -> String {
        format!("prune:{}", self.name)
    }

    /// What the journal says before anything is removed.
    pub fn start_entry(&self) -> JournalEntry {
        let by = self.by.cleaned();
        JournalEntry {
            at: by.at,
            actor: by.actor,
            action: "prune.start".to_owned(),
            unit: None,
            filter: Some(self.filter_json().to_string()),
            details: json!({ "name": self.name, "files": self.files, "reason": by.reason })
                .to_string(),
            dedupe_key: Some(self.key()),
        }
    }

    /// What it says when all of it is gone.
    pub fn end_entry(&self, runs: Pruned, samples: Pruned, at: Timestamp) -> JournalEntry {
        let details = json!({
            "name": self.name,
            "runs": runs.units,
            "samples": samples.units,
            "attempts": runs.attempts.saturating_add(samples.attempts),
        });
        JournalEntry {
            at,
            action: "prune.end".to_owned(),
            details: details.to_string(),
            dedupe_key: None,
            ..self.start_entry()
        }
    }

    fn filter_json(&self) -> Value {
        let PruneFilter { before, queue, pipeline } = &self.filter;
        json!({ "before": before.to_string(), "queue": queue, "pipeline": pipeline })
    }
}

/// What of a store may go, and its going.
#[async_trait]
pub trait Pruning: Send + Sync {
    /// Runs that may go, by id, after an id, a page at a time: `passed`, `needs_review`, `failed`,
    /// `cancelled`, or given up.
    async fn prunable_runs(
        &self,
        filter: &PruneFilter,
        after: RunId,
        limit: u32,
    ) -> Result<Vec<RunRecord>>;

    /// Samples that may go, likewise: ended, of a pipeline run that is not running.
    async fn prunable_samples(
        &self,
        filter: &PruneFilter,
        after: SampleId,
        limit: u32,
    ) -> Result<Vec<SampleRecord>>;

    /// How many runs may go.
    async fn count_prunable_runs(&self, filter: &PruneFilter) -> Result<u64>;

    /// How many samples may go.
    async fn count_prunable_samples(&self, filter: &PruneFilter) -> Result<u64>;

    /// The attempts at some units of a kind, in the order of [`LedgerPlace`], after a place, a page at a
    /// time.
    async fn attempts_at(
        &self,
        kind: UnitKind,
        ids: &[i64],
        after: &LedgerPlace,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>>;

    /// Removes runs that are as they were written down and may still go, with their rows of the ledger.
    /// The [key](PruneRecord::key) must be that of an entry of the journal; otherwise nothing is removed.
    async fn prune_runs(
        &self,
        key: &str,
        filter: &PruneFilter,
        runs: &[ExportedUnit],
    ) -> Result<Pruned>;

    /// Removes samples likewise. Their pipeline run knows how many are gone.
    async fn prune_samples(
        &self,
        key: &str,
        filter: &PruneFilter,
        samples: &[ExportedUnit],
    ) -> Result<Pruned>;
}
