//! How everything stands, on one page.

use serde::Serialize;

use super::{PipelineRunView, QueueStatsView};

/// How everything stands.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OverviewView {
    /// Another one when anything changed.
    pub version: u64,
    /// When it was looked at.
    pub at: String,
    /// How many units of each kind are in each state.
    pub units: Vec<UnitCountView>,
    /// Every queue.
    pub queues: Vec<QueueStatsView>,
    /// Every source that is declared or has partitions.
    pub sources: Vec<SourceCountView>,
    /// The newest runs of pipelines.
    pub pipeline_runs: Vec<PipelineRunView>,
    /// Attempts of the last hour, minute by minute.
    pub activity: Vec<MinuteView>,
    /// What failures of the last hour have in common, the most frequent first.
    pub causes: Vec<RecentCauseView>,
    /// What happens next by itself, the soonest first.
    pub due: Vec<DueView>,
}

impl OverviewView {
    /// How many units of a kind are in a state.
    pub fn count(&self, kind: &str, state: &str) -> u64 {
        let units = self.units.iter();
        units.filter(|it| it.kind == kind && it.state == state).map(|it| it.count).sum()
    }

    /// What failed and is there, kind by kind: how many, and what they are called.
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

/// Units of a kind that are in a state.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnitCountView {
    /// `partition`, `run`, `item` or `sample`.
    pub kind: &'static str,
    /// As the kind calls it.
    pub state: &'static str,
    /// How many.
    pub count: u64,
}

/// The partitions of a source.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SourceCountView {
    /// The source.
    pub source: String,
    /// Not tried, or to be tried again.
    pub pending: u64,
    /// Good.
    pub success: u64,
    /// Not good.
    pub failed: u64,
}

/// The attempts of a minute.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MinuteView {
    /// When it begins.
    pub minute: String,
    /// Of what kind of unit.
    pub kind: &'static str,
    /// Attempts that succeeded, or passed their unit over.
    pub good: u64,
    /// Attempts after which it is tried again.
    pub retrying: u64,
    /// Attempts that were the last, and failed.
    pub failed: u64,
}

/// Failures that have one cause.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecentCauseView {
    /// Of what kind of unit.
    pub kind: &'static str,
    /// What they share.
    pub fingerprint: String,
    /// Their code.
    pub code: String,
    /// What the last of them said.
    pub message: String,
    /// The unit that the last of them was of, such as `run:17`.
    pub unit: String,
    /// How many.
    pub attempts: u64,
    /// When the last of them ended.
    pub last_at: String,
}

/// Something that happens by itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DueView {
    /// When.
    pub at: String,
    /// `queue`, `partition` or `pipeline`.
    pub kind: &'static str,
    /// Which.
    pub name: String,
    /// What.
    pub what: String,
}
