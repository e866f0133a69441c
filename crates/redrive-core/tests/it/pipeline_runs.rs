//! How a pipeline run is judged: its thresholds, its failure budget and its life.

use proptest::prelude::*;
use redrive_core::{
    BudgetCount, FailureBudget, IllegalTransition, PipelineEvent as E, PipelineProgress,
    PipelineRules, PipelineStatus as S, PipelineStep, SampleCounts, SampleOutcome,
};

const DEAD: SampleOutcome<'static> = SampleOutcome::Dead("retryable");

fn legal(status: S) -> &'static [(E, S)] {
    match status {
        S::Running => &[
            (E::Complete, S::Completed),
            (E::SucceedInPart, S::PartialSuccess),
            (E::Fail, S::Failed),
            (E::Abort, S::Aborted),
            (E::Cancel, S::Cancelled),
            (E::Resume, S::Running),
            (E::Reprocess, S::Running),
        ],
        S::Completed | S::PartialSuccess | S::Failed => &[(E::Reprocess, S::Running)],
        S::Aborted => {
            &[(E::Resume, S::Running), (E::Cancel, S::Cancelled), (E::Reprocess, S::Aborted)]
        }
        S::Cancelled => &[(E::Resume, S::Running), (E::Reprocess, S::Cancelled)],
    }
}

// PIP-5, PIP-6
#[test]
fn every_step_of_a_pipeline_run_is_in_the_table_or_refused_by_name() {
    for status in S::ALL {
        assert_eq!(S::from_name(status.name()), Some(status));
        for event in E::ALL {
            let refused = IllegalTransition {
                kind: "pipeline run",
                state: status.name(),
                event: event.name(),
            };
            let next = legal(status).iter().find(|(known, _)| *known == event);
            let expected = next.map(|(_, next)| *next).ok_or(refused);
            assert_eq!(status.apply(event), expected, "{status:?} {event:?}");
        }
    }
}

fn counts(succeeded: u64, skipped: u64, dlq: u64) -> SampleCounts {
    SampleCounts { total: succeeded + skipped + dlq, succeeded, skipped, dlq, source_done: true }
}

// PIP-5
#[test]
fn a_run_is_judged_at_the_exact_thresholds() {
    let rules = PipelineRules::default();
    for (succeeded, skipped, dlq, expected) in [
        (95, 0, 5, E::Complete),
        (94, 0, 6, E::SucceedInPart),
        (949_999, 0, 50_001, E::SucceedInPart),
        (950_000, 0, 50_000, E::Complete),
        (50, 0, 50, E::SucceedInPart),
        (49, 0, 51, E::Fail),
        (19, 80, 1, E::Complete),
        (18, 80, 2, E::SucceedInPart),
        (0, 10, 0, E::Complete),
        (0, 0, 0, E::Complete),
        (0, 5, 1, E::Fail),
    ] {
        let counts = counts(succeeded, skipped, dlq);
        assert_eq!(rules.conclude(&counts), expected, "{counts:?}");
    }
    let strict = PipelineRules { completed_at: 1.0, partial_at: 0.9, ..rules };
    assert_eq!(strict.conclude(&counts(99, 0, 1)), E::SucceedInPart);
    assert_eq!(strict.conclude(&counts(9, 0, 1)), E::SucceedInPart);
    assert_eq!(strict.conclude(&counts(89, 0, 11)), E::Fail);
}

/// A run of so many samples, of which nothing has ended.
fn running(total: u64) -> PipelineProgress {
    PipelineProgress {
        status: S::Running,
        counts: SampleCounts { total, source_done: true, ..SampleCounts::default() },
        budget: BudgetCount::default(),
    }
}

/// Ends samples, the first of them dead, and returns the first step.
fn end(
    progress: &mut PipelineProgress,
    rules: &PipelineRules,
    dead: u64,
    all: u64,
) -> Option<PipelineStep> {
    (0..all)
        .find_map(|n| progress.end(rules, if n < dead { DEAD } else { SampleOutcome::Succeeded }))
}

// PIP-6
#[test]
fn a_budget_is_exceeded_above_its_exact_rate_and_looked_at_after_every_thousand() {
    let rules = PipelineRules::default();
    let mut at_the_rate = running(10_000);
    assert_eq!(end(&mut at_the_rate, &rules, 100, 1_000), None);
    let mut above = running(10_000);
    assert_eq!(end(&mut above, &rules, 101, 999), None, "not before the thousandth");
    let Some(PipelineStep::Aborted(why)) = above.end(&rules, SampleOutcome::Succeeded) else {
        panic!("not aborted: {above:?}");
    };
    assert_eq!((why.processed, why.failed, why.budget), (1_000, 101, 0.10));
    assert_eq!(
        why.to_string(),
        "failure rate 10.1 % exceeds the budget of 10 %: 101 of 1000 failed"
    );
    assert_eq!(above.status, S::Aborted);
    assert_eq!(above.counts.pending(), 9_000);
}

// PIP-6
#[test]
fn a_budget_counts_everything_that_ended_so_far() {
    let rules = PipelineRules::default();
    let mut progress = running(10_000);
    assert_eq!(end(&mut progress, &rules, 0, 1_000), None);
    assert_eq!(end(&mut progress, &rules, 200, 1_000), None, "200 of 2000");
    let step = end(&mut progress, &rules, 101, 1_000);
    assert!(matches!(step, Some(PipelineStep::Aborted(_))), "301 of 3000: {step:?}");
}

// PIP-6
#[test]
fn a_budget_is_not_looked_at_when_no_work_remains() {
    let rules = PipelineRules::default();
    let mut progress = running(1_000);
    let step = end(&mut progress, &rules, 400, 1_000);
    assert_eq!(step, Some(PipelineStep::Concluded(S::PartialSuccess)));
    assert!(rules.budget.exceeded(progress.budget).is_some(), "but the report can say so");
}

// PIP-6
#[test]
fn few_samples_and_excluded_classes_do_not_abort() {
    let budget = FailureBudget {
        every: 10,
        min_samples: 100,
        exclude: vec!["rate_limited".to_owned()],
        ..FailureBudget::default()
    };
    let rules = PipelineRules { budget, ..PipelineRules::default() };
    let mut progress = running(1_000);
    assert_eq!(end(&mut progress, &rules, 99, 99), None);
    let step = progress.end(&rules, SampleOutcome::Succeeded);
    assert!(matches!(step, Some(PipelineStep::Aborted(_))));
    let mut outage = running(1_000);
    for _ in 0..500 {
        assert_eq!(outage.end(&rules, SampleOutcome::Dead("rate_limited")), None);
    }
    assert_eq!(outage.budget, BudgetCount { processed: 500, failed: 0 });
}

// PIP-6
#[test]
fn a_resumed_run_counts_afresh() {
    let rules = PipelineRules::default();
    let mut progress = running(10_000);
    end(&mut progress, &rules, 500, 1_000);
    assert_eq!(progress.status, S::Aborted);
    assert_eq!(progress.end(&rules, DEAD), None, "what was running still ends");
    assert_eq!(progress.resume(&rules), None);
    assert_eq!((progress.status, progress.budget), (S::Running, BudgetCount::default()));
    assert_eq!(progress.counts.dlq, 501);
    assert_eq!(end(&mut progress, &rules, 100, 1_000), None);
}

// PIP-6
#[test]
fn a_run_that_only_goes_on_keeps_its_count() {
    let rules = PipelineRules::default();
    let mut progress = running(10_000);
    end(&mut progress, &rules, 50, 500);
    assert_eq!(progress.resume(&rules), None);
    assert_eq!(progress.budget, BudgetCount { processed: 500, failed: 50 });
}

// PIP-5, PIP-7
#[test]
fn a_reprocessed_dead_letter_reopens_its_run() {
    let rules = PipelineRules::default();
    let mut progress = running(10);
    assert_eq!(end(&mut progress, &rules, 6, 10), Some(PipelineStep::Concluded(S::Failed)));
    (0..6).for_each(|_| progress.reprocess());
    assert_eq!((progress.status, progress.counts.pending()), (S::Running, 6));
    assert_eq!(end(&mut progress, &rules, 0, 6), Some(PipelineStep::Concluded(S::Completed)));
}

// PIP-2, PIP-5
#[test]
fn a_run_is_not_over_before_its_source_is() {
    let rules = PipelineRules::default();
    let mut progress = running(0);
    progress.counts.source_done = false;
    assert_eq!(progress.read(&rules, 2, false), None);
    assert_eq!(end(&mut progress, &rules, 0, 2), None);
    assert_eq!(progress.read(&rules, 0, true), Some(PipelineStep::Concluded(S::Completed)));
    let mut empty = running(0);
    empty.counts.source_done = false;
    assert_eq!(empty.read(&rules, 0, true), Some(PipelineStep::Concluded(S::Completed)));
}

proptest! {
    // PIP-5
    #[test]
    fn every_sample_is_accounted_for(ends in prop::collection::vec(0_u8..3, 0..200), every in 1_u64..20) {
        let budget = FailureBudget { every, ..FailureBudget::default() };
        let rules = PipelineRules { budget, ..PipelineRules::default() };
        let mut progress = running(ends.len() as u64 + 1);
        for end in &ends {
            let end = [SampleOutcome::Succeeded, SampleOutcome::Skipped, DEAD][usize::from(*end)];
            progress.end(&rules, end);
            let SampleCounts { total, succeeded, skipped, dlq, .. } = progress.counts;
            prop_assert_eq!(total, succeeded + skipped + dlq + progress.counts.pending());
        }
        prop_assert_eq!(progress.counts.pending(), 1);
    }
}
