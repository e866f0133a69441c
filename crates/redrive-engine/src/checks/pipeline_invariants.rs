//! What must be true of a pipeline run, as a pure function of its row and of how many samples are where.

use redrive_core::{PipelineStatus, Tally};
use redrive_store::{PipelineRunRecord, PrunedSamples, StageCount};

use crate::checks::checker::{Finding, Invariant};

/// How many samples a run has, and where they are that are not through.
pub(crate) struct SampleCounts {
    pub(crate) samples: u64,
    pub(crate) stages: Vec<StageCount>,
}

impl SampleCounts {
    fn sum(&self, of: impl Fn(&StageCount) -> u64) -> u64 {
        self.stages.iter().map(of).sum()
    }

    fn pending(&self) -> u64 {
        self.sum(|stage| stage.ready + stage.running + stage.retrying)
    }
}

/// Everything that is wrong with a pipeline run.
pub(crate) fn check_pipeline_run(run: &PipelineRunRecord, counted: &SampleCounts) -> Vec<Finding> {
    let problems = [
        (Invariant::Counts, counts(&run.progress.tally, &run.pruned, counted)),
        (Invariant::Counts, budget(run)),
        (Invariant::StatusMatchesLedger, status_matches_ledger(run)),
        (Invariant::Lease, lease(run)),
    ];
    let finding = |(invariant, problem): (Invariant, Option<String>)| {
        let unit = format!("pipeline run {}", run.id);
        problem.map(|problem| Finding { invariant, unit, problem })
    };
    problems.into_iter().filter_map(finding).collect()
}

/// Samples that were pruned are counted and not there any more.
fn counts(tally: &Tally, pruned: &PrunedSamples, counted: &SampleCounts) -> Option<String> {
    let (pending, skipped) = (counted.pending(), counted.sum(|stage| stage.skipped));
    let dlq = counted.sum(|stage| stage.dlq);
    let through = counted.samples.saturating_sub(pending + skipped + dlq);
    let pairs = [
        ("total", tally.total, counted.samples + pruned.total()),
        ("succeeded", tally.succeeded, through + pruned.succeeded),
        ("skipped", tally.skipped, skipped + pruned.skipped),
        ("dlq", tally.dlq, dlq + pruned.dlq),
        ("pending", tally.pending(), pending),
    ];
    let wrong = pairs.into_iter().find(|(_, says, has)| says != has);
    wrong.map(|(name, says, has)| format!("{name} is {says}, and of its samples {has} are"))
}

/// The budget counts what ended since the run was begun, resumed or reopened: never more than ended.
fn budget(run: &PipelineRunRecord) -> Option<String> {
    let (budget, tally) = (run.progress.budget, run.progress.tally);
    let most = (tally.ended(), budget.processed.min(tally.dlq));
    (budget.processed > most.0 || budget.failed > most.1).then(|| {
        format!(
            "{} of {} count against its budget, and {} of {} ended as dead letters",
            budget.failed,
            budget.processed,
            tally.dlq,
            tally.ended()
        )
    })
}

fn status_matches_ledger(run: &PipelineRunRecord) -> Option<String> {
    let (status, tally) = (run.progress.status, &run.progress.tally);
    let (ended, why) = (run.ended_at.is_some(), run.stop_reason.is_some());
    let problem = match status {
        PipelineStatus::Running if tally.is_over() => "nothing is left of it to do",
        PipelineStatus::Running if ended || why => "it has an end",
        PipelineStatus::Running => return None,
        _ if !ended => "nobody knows since when",
        PipelineStatus::Aborted | PipelineStatus::Cancelled if !why => "nobody knows why",
        PipelineStatus::Aborted | PipelineStatus::Cancelled => return None,
        _ if !tally.is_over() => "not everything was read and ended",
        _ if why => "it says why it was stopped",
        PipelineStatus::Completed | PipelineStatus::PartialSuccess | PipelineStatus::Failed => {
            let concluded = PipelineStatus::Running.apply(run.rules.conclude(tally));
            if concluded == Ok(status) {
                return None;
            }
            "its samples come to something else"
        }
    };
    Some(format!("it is {status}, and {problem}"))
}

fn lease(run: &PipelineRunRecord) -> Option<String> {
    (run.feed.is_some() && run.feed_epoch.0 < 1)
        .then(|| "its source is read under an epoch that no claim gave".to_owned())
}
