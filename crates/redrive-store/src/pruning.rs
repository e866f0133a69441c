//! Pruning: the only way to remove rows from the ledger (OPS-8).
//!
//! Only finished units may be removed, and only if nothing has happened to them since a given time.
//! The caller has archived the units, has recorded that in the journal with
//! [`start_entry`](PruneRecord::start_entry), and names the archived units. A store removes those
//! that are still unchanged. Triggers allow the deletion of ledger rows only in a transaction that
//! names such a journal entry.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{Epoch, PlanId, RunId, SampleId};
use serde_json::{Value, json};

use crate::{
    AttemptRecord, JournalEntry, LedgerPlace, Operator, PlanRecord, Result, RunRecord,
    SampleRecord, UnitKind,
};

/// Selects units to prune.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneFilter {
    /// Every attempt and every journal entry of a run, and the end of a sample's pipeline run, must
    /// be older than this time.
    pub before: Timestamp,
    /// Only runs of this queue.
    pub queue: Option<String>,
    /// Only samples of this pipeline.
    pub pipeline: Option<String>,
}

impl PruneFilter {
    /// False if a queue or a pipeline is named.
    pub fn takes_plans(&self) -> bool {
        self.queue.is_none() && self.pipeline.is_none()
    }

    /// False if only a pipeline is named.
    pub fn takes_runs(&self) -> bool {
        self.pipeline.is_none() || self.queue.is_some()
    }

    /// False if only a queue is named.
    pub fn takes_samples(&self) -> bool {
        self.queue.is_none() || self.pipeline.is_some()
    }
}

/// A unit as it was archived. A unit that has changed since is not removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportedUnit {
    pub id: i64,
    /// The number of attempts; for a sample, those at its stage.
    pub attempts: u32,
    /// The epoch of the last lease.
    pub epoch: Epoch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    pub units: u64,
    /// Ledger rows of the units.
    pub attempts: u64,
}

/// Pruned samples of a pipeline run. The counts of the run still include them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrunedSamples {
    pub succeeded: u64,
    pub skipped: u64,
    pub dlq: u64,
}

impl PrunedSamples {
    pub fn total(&self) -> u64 {
        self.succeeded.saturating_add(self.skipped).saturating_add(self.dlq)
    }
}

/// A plan to remove, as it was archived with all its units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanPrune {
    pub id: PlanId,
    pub epoch: Epoch,
    pub by: Operator,
    /// The most units of one transaction.
    pub limit: u32,
}

/// A prune, for the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct PruneRecord {
    /// Unique.
    pub name: String,
    pub filter: PruneFilter,
    pub by: Operator,
    /// The archive files, each with name, rows and hash.
    pub files: Value,
}

impl PruneRecord {
    /// The dedupe key of the journal entry; a transaction that removes rows must name this key.
    pub fn key(&self) -> String {
        format!("prune:{}", self.name)
    }

    /// The journal entry before anything is removed.
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

    /// The journal entry after everything was removed.
    pub fn end_entry(
        &self,
        runs: Pruned,
        samples: Pruned,
        plans: u64,
        at: Timestamp,
    ) -> JournalEntry {
        let details = json!({
            "name": self.name,
            "runs": runs.units,
            "samples": samples.units,
            "plans": plans,
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

#[async_trait]
pub trait Pruning: Send + Sync {
    /// A page of prunable runs with ids above `after`, by id: `passed`, `needs_review`, `failed`,
    /// `cancelled`, or given up.
    async fn prunable_runs(
        &self,
        filter: &PruneFilter,
        after: RunId,
        limit: u32,
    ) -> Result<Vec<RunRecord>>;

    /// A page of prunable samples with ids above `after`, by id: ended, of a pipeline run that is
    /// not running.
    async fn prunable_samples(
        &self,
        filter: &PruneFilter,
        after: SampleId,
        limit: u32,
    ) -> Result<Vec<SampleRecord>>;

    /// A page of prunable plans with ids above `after`, by id: done, aborted or undone before, with no pending unit, and drafts from
    /// before whose list was never completed.
    async fn prunable_plans(
        &self,
        filter: &PruneFilter,
        after: PlanId,
        limit: u32,
    ) -> Result<Vec<PlanRecord>>;

    async fn count_prunable_plans(&self, filter: &PruneFilter) -> Result<u64>;

    async fn count_prunable_runs(&self, filter: &PruneFilter) -> Result<u64>;

    async fn count_prunable_samples(&self, filter: &PruneFilter) -> Result<u64>;

    /// A page of the attempts at some units of a kind after a position, in the order of
    /// [`LedgerPlace`].
    async fn attempts_at(
        &self,
        kind: UnitKind,
        ids: &[i64],
        after: &LedgerPlace,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>>;

    /// Removes runs that are unchanged since they were archived and may still be pruned, with their
    /// ledger rows. Without a journal entry with this [key](PruneRecord::key), nothing is removed.
    async fn prune_runs(
        &self,
        key: &str,
        filter: &PruneFilter,
        runs: &[ExportedUnit],
    ) -> Result<Pruned>;

    /// Removes samples likewise, and adds them to the pruned counts of their pipeline run.
    async fn prune_samples(
        &self,
        key: &str,
        filter: &PruneFilter,
        samples: &[ExportedUnit],
    ) -> Result<Pruned>;

    /// Removes a page of the units of a plan that is unchanged since it was archived and may still be pruned, and the plan
    /// once it has none. The first removal has a journal entry `plan.prune`. Without a journal entry with this
    /// [key](PruneRecord::key), nothing is removed.
    async fn prune_plan(
        &self,
        key: &str,
        filter: &PruneFilter,
        plan: &PlanPrune,
    ) -> Result<PrunedPlan>;
}

/// What [`Pruning::prune_plan`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrunedPlan {
    /// So many units were removed; there may be more.
    Units(u64),
    /// The plan was removed.
    Gone,
    /// The plan has changed, or was removed by others; nothing was removed.
    Left,
}
