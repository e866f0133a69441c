//! The overview: counts, recent failures and upcoming retries of the whole store.

use serde::Serialize;

use super::{PipelineRunView, QueueStatsView};

/// Counts, recent failures and upcoming retries of the whole store.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OverviewView {
    /// Changes whenever the overview changes.
    pub version: u64,
    /// When the counts were taken.
    pub at: String,
    /// Number of units of each kind in each state.
    pub units: Vec<UnitCountView>,
    /// Every queue that is declared or has runs.
    pub queues: Vec<QueueStatsView>,
    /// Every source that is declared or has partitions.
    pub sources: Vec<SourceCountView>,
    /// The newest pipeline runs.
    pub pipeline_runs: Vec<PipelineRunView>,
    /// Attempts in the last hour, by minute.
    pub activity: Vec<MinuteView>,
    /// Causes of failures in the last hour, most frequent first.
    pub causes: Vec<RecentCauseView>,
    /// Scheduled retries and starts, soonest first.
    pub due: Vec<DueView>,
}

impl OverviewView {
    pub fn count(&self, kind: &str, state: &str) -> u64 {
        let units = self.units.iter();
        units.filter(|it| it.kind == kind && it.state == state).map(|it| it.count).sum()
    }

    /// Failed units by kind: the count and its label.
    pub fn failed(&self) -> Vec<(u64, &'static str)> {
        let named = |kind, state, one, many| match self.count(kind, state) {
            1 => (1, one),
            count => (count, many),
        };
        let mut failed = vec![
            named("partition", "failed", "failed partition", "failed partitions"),
            named("run", "given_up", "run given up", "runs given up"),
            named("item", "upload_giveup", "item given up", "items given up"),
            named("sample", "dlq", "dead letter", "dead letters"),
        ];
        failed.retain(|(count, _)| *count > 0);
        failed
    }
}

/// The number of units of a kind in a state.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnitCountView {
    /// `partition`, `run`, `item` or `sample`.
    pub kind: &'static str,
    /// A state name of the kind.
    pub state: &'static str,
    pub count: u64,
}

/// Number of partitions of a source, by status.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SourceCountView {
    pub source: String,
    pub pending: u64,
    pub success: u64,
    pub failed: u64,
}

/// Attempts of one kind of unit in one minute.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MinuteView {
    /// The start of the minute.
    pub minute: String,
    /// `partition`, `run`, `item` or `sample`.
    pub kind: &'static str,
    /// Attempts that succeeded or skipped their unit.
    pub good: u64,
    /// Attempts that are followed by a retry.
    pub retrying: u64,
    /// Failed attempts without a retry.
    pub failed: u64,
}

/// Failures with a common cause.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecentCauseView {
    /// `partition`, `run`, `item` or `sample`.
    pub kind: &'static str,
    /// Identical for all failures of the cause.
    pub fingerprint: String,
    pub code: String,
    /// The message of the last failure.
    pub message: String,
    /// The unit of the last failure, such as `run:17`.
    pub unit: String,
    pub attempts: u64,
    /// When the last failed attempt ended.
    pub last_at: String,
}

/// A scheduled retry or start.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DueView {
    pub at: String,
    /// `queue`, `partition` or `pipeline`.
    pub kind: &'static str,
    /// The queue, the partition key, or the pipeline and its run.
    pub name: String,
    /// A description in words.
    pub what: String,
}
