//! Finishing samples: what is written, and what stays unchanged.

use std::time::Duration;

use redrive_core::{
    AttemptNumber, BudgetCount, Cause, Class, Failure, FailureBudget, Fingerprint, PipelineRules,
    PipelineRunId, PipelineStatus, SampleState, SampleStatus,
};

use super::{
    Fixture,
    pipeline_samples::{
        answered, broken, counts, dead, ended, lines, new_run, retried, sample_lease, skipped,
    },
    samples::{at, before, operator},
};
use redrive_store::{
    AttemptOutcome, LeaseRef, NewPipelineRun, NewSample, SampleCompletion, SampleFinish,
    SampleWritten, Selection, Written,
};

const SECOND: Duration = Duration::from_secs(1);

// PIP-1, PIP-3, PIP-4
pub async fn a_sample_goes_through_its_stages_one_after_the_other(f: &Fixture) {
    let id = f.run_of(1).await;
    let first = f.sample_at(0, at(2)).await;
    f.end_sample(&first, 0, at(3), retried(at(3), SECOND, true)).await;
    let first = f.sample_at(0, at(9)).await;
    f.end_sample(&first, 0, at(10), answered("{\"clean\": 1}")).await;
    let sample = f.sample(first.id).await;
    assert_eq!(
        (sample.state(), sample.stage, sample.stage_name.as_str()),
        (SampleState::Ready, 1, "score")
    );
    assert_eq!(sample.data.as_deref(), Some("{\"clean\": 1}"));
    assert_eq!((sample.attempts, sample.retry_count, sample.deferrals), (0, 0, 0));
    assert_eq!((sample.first_attempt_at, sample.last_attempt_at), (None, None));
    assert_eq!((sample.error_class, sample.error_message, sample.fingerprint), (None, None, None));
    assert_eq!(f.progress(id).await.counts, counts([1, 0, 0, 0], true), "it has not ended");
    assert_eq!(f.samples_at(0, 9, at(11)).await, [], "the finished stage is not done again");

    let second = f.sample_at(1, at(12)).await;
    assert_eq!((second.attempt, second.data.as_str()), (AttemptNumber(1), "{\"clean\": 1}"));
    f.end_sample(&second, 1, at(13), retried(at(13), SECOND, true)).await;
    let second = f.sample_at(1, at(20)).await;
    assert_eq!(second.data, "{\"clean\": 1}", "a failure leaves the sample as it was");
    f.end_sample(&second, 1, at(21), answered("{\"score\": 2}")).await;
    let sample = f.sample(first.id).await;
    assert_eq!((sample.status, sample.stage), (SampleStatus::Succeeded, 1));
    assert_eq!(sample.data.as_deref(), Some("{\"score\": 2}"));
    assert_eq!((sample.attempts, sample.last_attempt_at), (2, Some(at(21))));
    let run = f.pipeline_run(id).await;
    assert_eq!((run.progress.status, run.ended_at), (PipelineStatus::Completed, Some(at(21))));

    for (place, stage) in ["clean", "score"].into_iter().enumerate() {
        let ledger = f.sample_attempts(first.id, stage).await;
        let outcomes: Vec<_> = ledger.iter().map(|row| (row.attempt.0, row.outcome)).collect();
        assert_eq!(outcomes, [(1, AttemptOutcome::Retrying), (2, AttemptOutcome::Success)]);
        let hash = format!("hash of {place}");
        assert!(ledger.iter().all(|row| row.stage_config_hash.as_deref() == Some(&hash)));
        assert_eq!(ledger[0].message.as_deref(), Some("busy"));
        assert_eq!(
            ledger[0].fingerprint,
            Some(Fingerprint::of(Class::Retryable, "503", "busy").to_string())
        );
        assert_eq!((ledger[0].delay, ledger[0].counted), (Some(SECOND), true));
    }
    f.raw
        .execute(
            "SELECT sample_id, stage_name, stage_config_hash, attempt, status, error_message,
                applied_at FROM stages_applied",
        )
        .await
        .expect("people find the ledger under these names");
}

// PIP-3
pub async fn a_failure_waits_by_what_was_decided(f: &Fixture) {
    f.run_of(1).await;
    let first = f.sample_at(0, at(2)).await;
    f.end_sample(&first, 0, at(3), retried(at(3), 5 * SECOND, true)).await;
    let sample = f.sample(first.id).await;
    assert_eq!((sample.state(), sample.next_retry_at), (SampleState::WaitingForRetry, Some(at(8))));
    assert_eq!((sample.attempts, sample.retry_count, sample.deferrals), (1, 1, 0));
    assert_eq!(
        (sample.error_class.as_deref(), sample.error_code.as_deref()),
        (Some("retryable"), Some("503"))
    );
    assert_eq!((sample.first_attempt_at, sample.last_attempt_at), (Some(at(2)), Some(at(3))));
    assert_eq!(sample.lease_owner, None, "it holds no slot");
    let second = f.sample_at(0, at(9)).await;
    f.end_sample(&second, 0, at(10), retried(at(10), 5 * SECOND, false)).await;
    let sample = f.sample(first.id).await;
    assert_eq!(
        (sample.attempts, sample.retry_count, sample.deferrals),
        (2, 1, 1),
        "a hint is not counted"
    );
    assert_eq!(sample.first_attempt_at, Some(at(2)));
    assert!(!f.sample_attempts(first.id, "clean").await[1].counted);
    assert_eq!(f.told_by("sample.dead").await, []);
}

// PIP-3, PIP-5
pub async fn a_sample_that_is_passed_over_ends_there(f: &Fixture) {
    let id = f.run_of(2).await;
    let claimed = f.samples_at(0, 2, at(2)).await;
    f.end_sample(&claimed[0], 0, at(3), skipped()).await;
    let sample = f.sample(claimed[0].id).await;
    assert_eq!((sample.status, sample.stage), (SampleStatus::Skipped, 0));
    assert_eq!(sample.skip_reason.as_deref(), Some("not ours"));
    assert_eq!(sample.data.as_deref(), Some("{\"n\": 1}"));
    let ledger = f.sample_attempts(sample.id, "clean").await;
    assert_eq!(
        (ledger[0].outcome, ledger[0].message.as_deref()),
        (AttemptOutcome::Skipped, Some("not ours"))
    );
    let progress = f.progress(id).await;
    assert_eq!(progress.counts, counts([2, 0, 1, 0], true));
    assert_eq!(progress.budget, BudgetCount { processed: 1, failed: 0 });
}

// PIP-3
pub async fn a_dead_letter_keeps_stage_error_attempts_and_time(f: &Fixture) {
    let id = f.run_of(1).await;
    let first = f.sample_at(0, at(2)).await;
    f.end_sample(&first, 0, at(3), answered("1")).await;
    let second = f.sample_at(1, at(4)).await;
    f.end_sample(&second, 1, at(5), retried(at(5), SECOND, true)).await;
    let third = f.sample_at(1, at(8)).await;
    f.end_sample(&third, 1, at(9), broken()).await;
    let sample = f.sample(first.id).await;
    assert_eq!((sample.state(), sample.stage_name.as_str()), (SampleState::Dead, "score"));
    assert_eq!((sample.attempts, sample.retry_count), (2, 1));
    assert_eq!(
        (sample.error_code.as_deref(), sample.error_message.as_deref()),
        (Some("422"), Some("broken sample 7"))
    );
    assert_eq!((sample.last_attempt_at, sample.data.as_deref()), (Some(at(9)), Some("1")));
    let told = f.told_by("sample.dead").await;
    assert_eq!(told[0].unit, Some(redrive_store::sample_unit(sample.id, "score")));
    let details: serde_json::Value = serde_json::from_str(&told[0].details).expect("JSON");
    let expected = serde_json::json!({ "reason": "final", "attempts": 2, "pipeline_run": id.0 });
    assert_eq!(details, expected);
    assert_eq!(f.progress(id).await.status, PipelineStatus::Failed);
}

// PIP-1
pub async fn a_stale_finish_of_a_sample_disturbs_nothing(f: &Fixture) {
    let id = f.run_of(3).await;
    let held = f.samples_at(0, 3, at(2)).await;
    let mut stale = ended(&held[0], 0, at(3), skipped());
    stale.epoch = before(stale.epoch);
    let unknown =
        SampleFinish { id: redrive_core::SampleId(999), ..ended(&held[0], 0, at(3), broken()) };
    let finishes = [
        stale,
        ended(&held[1], 0, at(3), skipped()),
        unknown,
        ended(&held[1], 0, at(3), broken()),
        ended(&held[2], 0, at(3), broken()),
    ];
    let written = f.store.finish_samples(&finishes).await.expect("answered");
    let (stale, applied) = (SampleWritten::Stale, SampleWritten::Applied);
    assert_eq!(written, [stale, applied, stale, stale, applied]);
    assert_eq!(f.progress(id).await.counts, counts([3, 0, 1, 1], true));
    assert_eq!(f.sample(held[0].id).await.state(), SampleState::Running);
    assert_eq!(f.sample_attempts(held[0].id, "clean").await, []);
    assert_eq!(f.sample_attempts(held[1].id, "clean").await.len(), 1);
    assert_eq!(f.told_by("sample.dead").await.len(), 1);
    let late = f.store.finish_samples(&finishes[1..2]).await.expect("answered");
    assert_eq!(late, [stale]);
    assert_eq!(f.store.finish_samples(&[]).await.expect("answered"), []);
    assert_eq!(f.progress(id).await.counts, counts([3, 0, 1, 1], true), "counted once");
}

// PIP-1
pub async fn a_sample_that_was_handed_on_is_lost_to_who_had_it(f: &Fixture) {
    f.run_of(1).await;
    let first = f.sample_at(0, at(2)).await;
    f.end_sample(&first, 0, at(3), retried(at(3), SECOND, true)).await;
    let second = f.sample_at(0, at(9)).await;
    let late = f.store.finish_samples(&[ended(&first, 0, at(9), answered("late"))]).await;
    assert_eq!(late.expect("answered"), [SampleWritten::Stale]);
    let lease: LeaseRef = sample_lease(&first);
    let renewed = f.store.renew_leases(redrive_store::Leased::Sample, &[lease], at(99)).await;
    assert_eq!(renewed.expect("answered"), [Written::Stale]);
    f.end_sample(&second, 0, at(10), answered("mine")).await;
    assert_eq!(f.sample(first.id).await.data.as_deref(), Some("mine"));
}

// PIP-1
pub async fn a_lost_workers_sample_is_told_in_the_journal(f: &Fixture) {
    f.run_of(2).await;
    let held = f.samples_at(0, 2, at(2)).await;
    f.end_sample(&held[0], 0, at(90), dead(Failure::lost_worker("no word from w1"))).await;
    let failure = Failure::lost_worker("no word from w1");
    let SampleCompletion::Failed { decision, .. } = retried(at(90), SECOND, true) else { return };
    f.end_sample(&held[1], 0, at(90), SampleCompletion::Failed { failure, decision }).await;
    let units = async |action| {
        let told = f.told_by(action).await;
        told.into_iter().filter_map(|entry| entry.unit).collect::<Vec<_>>()
    };
    let unit = |place: usize| redrive_store::sample_unit(held[place].id, "clean");
    assert_eq!(units("sample.lease_lost").await, [unit(0), unit(1)]);
    assert_eq!(units("sample.dead").await, [unit(0)]);
    let ledger = f.sample_attempts(held[0].id, "clean").await;
    assert_eq!(ledger[0].cause, Some(Cause::LostWorker));
}

// PIP-5, PIP-6
pub async fn samples_ended_at_once_are_all_counted_and_the_budget_is_looked_at_once(f: &Fixture) {
    let budget = FailureBudget { rate: 0.5, every: 100, ..FailureBudget::default() };
    let rules = PipelineRules { budget, ..PipelineRules::default() };
    let feed = f.reading(&NewPipelineRun { rules, ..new_run() }).await;
    let id = PipelineRunId(feed.id);
    f.feed(feed, &lines(1..=200), true).await;
    let held = f.samples_at(0, 160, at(2)).await;
    let mut tasks = tokio::task::JoinSet::new();
    for part in held.chunks(10) {
        let store = f.store.clone();
        let completions = [broken(), broken(), broken(), skipped(), answered("1")];
        let finishes: Vec<_> = part
            .iter()
            .zip(completions.into_iter().cycle())
            .map(|(sample, completion)| SampleFinish {
                last_stage: true,
                ..ended(sample, 0, at(3), completion)
            })
            .collect();
        tasks.spawn(async move { store.finish_samples(&finishes).await.expect("answered") });
    }
    let written = tasks.join_all().await.concat();
    assert!(written.iter().all(|written| *written == SampleWritten::Applied));
    let progress = f.progress(id).await;
    assert_eq!(progress.counts, counts([200, 32, 32, 96], true));
    assert_eq!((progress.status, progress.budget.processed), (PipelineStatus::Aborted, 160));
    let told = f.told_by("pipeline.abort").await;
    assert_eq!(told.len(), 1);
    let details: serde_json::Value = serde_json::from_str(&told[0].details).expect("JSON");
    assert_eq!((&details["processed"], &details["failed"]), (&100.into(), &60.into()));
}

// PIP-3
pub async fn foreign_text_of_a_sample_is_kept_whatever_it_holds(f: &Fixture) {
    let huge = "x".repeat(1_000_000);
    let feed = f.reading(&new_run()).await;
    let strange =
        "{\"nul\": \"\\u0000\", \"quote\": \"'\\\"%_\", \"half\": \"\\ud800\", \"é\": 1e400}";
    let long = format!("{{\"long\": \"{huge}\"}}");
    for (line, text) in (1..).zip(["", "NUL \0 inside", "\x1b[2Jgone", "日本語", &huge]) {
        let data = if line == 5 { long.clone() } else { format!("[{line}, {strange}]") };
        f.feed(feed, &[NewSample { line, data: Ok(data.clone()), hash: None }], false).await;
        let claimed = f.sample_at(0, at(2)).await;
        assert_eq!(claimed.data, data, "as it was read");
        let failure = Failure::exit(1, text);
        let kept = failure.message().as_str().to_owned();
        f.end_sample(&claimed, 0, at(3), dead(failure)).await;
        assert_eq!(f.sample(claimed.id).await.error_message, Some(kept.clone()));
        assert_eq!(f.sample_attempts(claimed.id, "clean").await[0].message, Some(kept.clone()));
        let filter = Selection { error: Some(kept), ..Selection::default() };
        assert!(f.store.count_samples(&filter).await.expect("read") >= 1);

        let back = f.store.reprocess_samples(&[claimed.id], &operator(at(4))).await;
        assert_eq!(back.expect("answered"), [redrive_store::SampleChange::Done]);
        let claimed = f.sample_at(0, at(5)).await;
        f.end_sample(&claimed, 0, at(6), SampleCompletion::Skipped(text.to_owned())).await;
        let sample = f.sample(claimed.id).await;
        let kept = sample.skip_reason.expect("a reason");
        assert!(!kept.contains(['\0', '\x1b']) && kept.len() < 10_000, "it is cleaned");
        assert_eq!(f.sample_attempts(claimed.id, "clean").await[1].message, Some(kept));
        assert_eq!(sample.data, Some(data));
    }
}
