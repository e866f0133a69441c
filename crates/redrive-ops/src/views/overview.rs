//! The overview: counts, recent failures and upcoming retries of the whole store.

use serde::Serialize;

use super::{CauseView, GateView, PipelineRunView, PlanView, QueueStatsView, UnattendedView};

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
    /// Causes of units that are stuck or waiting and of failures in the last day, the most stuck units first.
    pub causes: Vec<CauseView>,
    /// Plans that run or are paused, of the newest plans.
    pub plans: Vec<PlanView>,
    /// Gates and keys that are not open, up to 20.
    pub gates: Vec<GateView>,
    /// Units that wait and that no present worker serves.
    pub unattended: Vec<UnattendedView>,
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

    /// `5 failed partitions, 1 run given up and 2 dead letters; 3 runs wait for a retry.`
    pub fn summary(&self, number: impl Fn(u64) -> String) -> String {
        let dead: Vec<String> = self
            .failed()
            .into_iter()
            .map(|(count, what)| format!("{} {what}", number(count)))
            .collect();
        let dead = match dead.split_last() {
            Some((last, [])) => Some(last.clone()),
            Some((last, others)) => Some(format!("{} and {last}", others.join(", "))),
            None => None,
        };
        let waiting = match self.count("run", "waiting_for_retry") {
            0 => None,
            1 => Some("1 run waits for a retry".to_owned()),
            many => Some(format!("{} runs wait for a retry", number(many))),
        };
        match (dead, waiting) {
            (None, None) => "No failures.".to_owned(),
            (None, Some(waiting)) => format!("{waiting}; no unit is given up."),
            (Some(dead), None) => format!("{dead}."),
            (Some(dead), Some(waiting)) => format!("{dead}; {waiting}."),
        }
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
