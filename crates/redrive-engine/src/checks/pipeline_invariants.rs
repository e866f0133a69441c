//! What must hold for a pipeline run, as a pure function of its row and the counts of its samples.

use redrive_core::{PipelineStatus, SampleCounts};
use redrive_store::{PipelineRunRecord, PrunedSamples, StageCount};

use crate::checks::checker::{Finding, Invariant};

/// The samples of a run. `stages` leaves out the samples that succeeded.
pub(crate) struct ActualSampleCounts {
    pub(crate) samples: u64,
    pub(crate) stages: Vec<StageCount>,
}

impl ActualSampleCounts {
    fn sum(&self, of: impl Fn(&StageCount) -> u64) -> u64 {
        self.stages.iter().map(of).sum()
    }

    fn pending(&self) -> u64 {
        self.sum(|stage| stage.ready + stage.running + stage.retrying)
    }
}

pub(crate) fn check_pipeline_run(
    run: &PipelineRunRecord,
    counted: &ActualSampleCounts,
) -> Vec<Finding> {
    let problems = [
        (Invariant::Counts, counts(&run.progress.counts, &run.pruned, counted)),
        (Invariant::Counts, budget(run)),
        (Invariant::StatusMatchesLedger, status_matches_counts(run)),
        (Invariant::Lease, lease(run)),
    ];
    let finding = |(invariant, problem): (Invariant, Option<String>)| {
        let unit = format!("pipeline run {}", run.id);
        problem.map(|problem| Finding { invariant, unit, problem })
    };
    problems.into_iter().filter_map(finding).collect()
}

/// Pruned samples stay in the counts of the run.
fn counts(
    tally: &SampleCounts,
    pruned: &PrunedSamples,
    counted: &ActualSampleCounts,
) -> Option<String> {
    let (pending, skipped) = (counted.pending(), counted.sum(|stage| stage.skipped));
    let dlq = counted.sum(|stage| stage.dlq + stage.source_dlq);
    let succeeded = counted.samples.saturating_sub(pending + skipped + dlq);
    let pairs = [
        ("total", tally.total, counted.samples + pruned.total()),
        ("succeeded", tally.succeeded, succeeded + pruned.succeeded),
        ("skipped", tally.skipped, skipped + pruned.skipped),
        ("dlq", tally.dlq, dlq + pruned.dlq),
        ("pending", tally.pending(), pending),
    ];
    let wrong = pairs.into_iter().find(|(_, stored, actual)| stored != actual);
    wrong.map(|(name, stored, actual)| {
        format!("{name} is {stored}, but counting the samples gives {actual}")
    })
}

/// The budget counts samples that ended since the run was last started, resumed or reopened, so it never
/// counts more samples than ended.
fn budget(run: &PipelineRunRecord) -> Option<String> {
    let (budget, tally) = (run.progress.budget, run.progress.counts);
    let (max_processed, max_failed) = (tally.ended(), budget.processed.min(tally.dlq));
    (budget.processed > max_processed || budget.failed > max_failed).then(|| {
        format!(
            "the budget counts {} failed of {} processed samples, but {} of {} ended samples are \
             dead letters",
            budget.failed,
            budget.processed,
            tally.dlq,
            tally.ended()
        )
    })
}

fn status_matches_counts(run: &PipelineRunRecord) -> Option<String> {
    let (status, tally) = (run.progress.status, &run.progress.counts);
    let (ended, why) = (run.ended_at.is_some(), run.stop_reason.is_some());
    let problem = match status {
        PipelineStatus::Running if tally.is_over() => "all samples have ended",
        PipelineStatus::Running if ended || why => "ended_at or stop_reason is set",
        PipelineStatus::Running => return None,
        _ if !ended => "ended_at is not set",
        PipelineStatus::Aborted | PipelineStatus::Cancelled if !why => "stop_reason is not set",
        PipelineStatus::Aborted | PipelineStatus::Cancelled => return None,
        _ if !tally.is_over() => "some samples are unread or unfinished",
        _ if why => "stop_reason is set",
        PipelineStatus::Completed | PipelineStatus::PartialSuccess | PipelineStatus::Failed => {
            let concluded = PipelineStatus::Running.apply(run.rules.conclude(tally));
            if concluded == Ok(status) {
                return None;
            }
            "the counts of its samples lead to another status"
        }
    };
    Some(format!("status is {status}, but {problem}"))
}

fn lease(run: &PipelineRunRecord) -> Option<String> {
    (run.feed.is_some() && run.feed_epoch.0 < 1)
        .then(|| "a worker reads the source under epoch 0, which no claim assigns".to_owned())
}
