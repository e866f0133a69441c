//! Pipeline runs: start, end, cancel and resume.

use std::time::Duration;

use redrive_core::{
    BudgetCount, Epoch, Failure, FailureBudget, PipelineRules, PipelineRunId, PipelineStatus,
};
use serde_json::{Value, json};

use super::{
    Fixture,
    pipeline_samples::{
        answered, broken, claim_at, counts, ended, feed_claim, lines, new_run, position, skipped,
    },
    samples::{at, operator},
};
use redrive_store::{
    NewPipelineRun, PageLimit, PipelineAction, PipelineChange, SampleFinish, SampleWritten,
    Selection, SourcePosition,
};

fn details(entry: &redrive_store::JournalEntry) -> Value {
    serde_json::from_str(&entry.details).expect("details are JSON")
}

// PIP-1
pub async fn a_run_that_no_worker_could_finish_is_refused(f: &Fixture) {
    let refused: [&[&str]; 4] = [&[], &["a", "b", "a"], &["a", ""], &[""]];
    for stages in refused {
        let stages = stages.iter().map(|name| (*name).to_owned()).collect();
        let new = NewPipelineRun { stages, ..new_run() };
        let started = f.store.start_pipeline_run(&new, &operator(at(9))).await;
        assert!(started.is_err(), "{:?}", new.stages);
    }
    let every = Selection::default();
    let runs = f
        .store
        .pipeline_runs_page(&every, PipelineRunId(i64::MAX), PageLimit::from(10).newest_first())
        .await;
    assert_eq!(runs.expect("read"), []);
}

// PIP-2, PIP-8
pub async fn a_pipeline_run_reads_back_as_it_was_given(f: &Fixture) {
    let rules = PipelineRules {
        completed_at: 0.999,
        partial_at: 0.1,
        budget: FailureBudget {
            rate: 0.3,
            every: 7,
            min_samples: 5,
            exclude: vec!["rate_limited".to_owned()],
        },
    };
    let stages = vec!["a \"b\" % _ 日本".to_owned(), "[\"c\"]".to_owned(), " ".to_owned()];
    let new = NewPipelineRun {
        pipeline: "p%_'\"日本".to_owned(),
        stages,
        rules,
        read_ahead: 3,
        source: "cat 'x' | y".to_owned(),
    };
    let id = f.store.start_pipeline_run(&new, &operator(at(9))).await.expect("started");
    let run = f.pipeline_run(id).await;
    assert_eq!((run.pipeline, run.stages), (new.pipeline, new.stages));
    assert_eq!((run.rules, run.read_ahead, run.source), (new.rules, 3, new.source));
    assert_eq!(run.position, SourcePosition::default());
    assert_eq!(run.progress.status, PipelineStatus::Running);
    assert_eq!(run.progress.counts, counts([0; 4], false));
    assert_eq!(run.progress.budget, BudgetCount::default());
    assert_eq!((run.started_at, run.started_by.as_str()), (at(9), "ada"));
    assert_eq!((run.ended_at, run.stop_reason), (None, None));
    assert_eq!((run.feed, run.feed_epoch), (None, Epoch(0)));
    let told = f.told_by("pipeline.start").await;
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].at, told[0].actor.as_str()), (at(9), "ada"));
    let filter = told[0].filter.clone().expect("a filter");
    assert_eq!(filter, json!({ "pipeline_run": id.0 }).to_string());
    assert_eq!(f.store.pipeline_runs_by_id(&[PipelineRunId(99)]).await.expect("read"), []);
}

// PIP-8
pub async fn pipeline_runs_come_in_both_orders_and_filters_match_exactly(f: &Fixture) {
    let mut ids = Vec::new();
    for pipeline in ["p", "p%", "P", "p", "p_"] {
        let new = NewPipelineRun { pipeline: pipeline.to_owned(), ..new_run() };
        let id = f.store.start_pipeline_run(&new, &operator(at(0))).await.expect("started");
        ids.push(id);
    }
    f.cancel_pipeline_run(ids[3]).await;
    let list = async |pipeline: Option<&str>, status: Option<PipelineStatus>, before, limit| {
        let filter = Selection {
            pipeline: pipeline.map(str::to_owned),
            state: status.map(Into::into),
            ..Selection::default()
        };
        let page = f
            .store
            .pipeline_runs_page(&filter, before, PageLimit::from(limit).newest_first())
            .await
            .expect("read");
        page.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    let end = PipelineRunId(i64::MAX);
    assert_eq!(list(None, None, end, 2).await, [ids[4], ids[3]]);
    assert_eq!(list(None, None, ids[3], 9).await, [ids[2], ids[1], ids[0]]);
    assert_eq!(list(Some("p"), None, end, 9).await, [ids[3], ids[0]]);
    assert_eq!(list(Some("p%"), None, end, 9).await, [ids[1]]);
    assert_eq!(list(Some("p"), Some(PipelineStatus::Running), end, 9).await, [ids[0]]);
    assert_eq!(list(None, Some(PipelineStatus::Cancelled), end, 9).await, [ids[3]]);
    assert_eq!(list(Some(""), None, end, 9).await, []);
    let oldest = f.store.pipeline_runs_page(&Selection::default(), ids[1], 2.into()).await;
    let oldest: Vec<_> = oldest.expect("read").into_iter().map(|run| run.id).collect();
    assert_eq!(oldest, ids[2..4]);
}

// PIP-5
pub async fn a_run_is_what_its_samples_come_to(f: &Fixture) {
    use PipelineStatus as S;
    for (succeeds, skips, dies, expected) in [
        (0, 0, 0, S::Completed),
        (0, 3, 0, S::Completed),
        (19, 0, 1, S::Completed),
        (18, 0, 1, S::PartialSuccess),
        (19, 20, 1, S::Completed),
        (1, 0, 1, S::PartialSuccess),
        (1, 5, 2, S::Failed),
        (0, 0, 1, S::Failed),
    ] {
        let id = f.run_of(succeeds + skips + dies).await;
        let completions = (0..succeeds).map(|_| answered("1"));
        let completions =
            completions.chain((0..skips).map(|_| skipped())).chain((0..dies).map(|_| broken()));
        f.end_each(at(5), completions.collect()).await;
        let run = f.pipeline_run(id).await;
        let total = succeeds + skips + dies;
        assert_eq!(run.progress.status, expected, "{succeeds} {skips} {dies}");
        assert_eq!(run.progress.counts, counts([total, succeeds, skips, dies], true));
        assert_eq!(run.ended_at, Some(if total == 0 { at(1) } else { at(5) }));
        assert_eq!(run.stop_reason, None);
        let told = f.told_by("pipeline.end").await.pop().expect("told");
        assert_eq!(details(&told)["status"], expected.name());
        assert_eq!(details(&told)["dlq"], dies);
    }
}

// PIP-6
pub async fn a_run_is_stopped_at_the_very_sample_that_exceeds_its_budget(f: &Fixture) {
    let budget = FailureBudget { rate: 0.25, every: 4, ..FailureBudget::default() };
    let rules = PipelineRules { budget, ..PipelineRules::default() };
    let feed = f.reading(&NewPipelineRun { rules: rules.clone(), ..new_run() }).await;
    let id = PipelineRunId(feed.id);
    f.feed(feed, &lines(1..=20), true).await;
    // After four, one of them failed: that is the budget, and not above it. After eight, it is three.
    let mut completions: Vec<_> = (0..10).map(|_| answered("1")).collect();
    for dies in [1, 5, 7] {
        completions[dies] = broken();
    }
    f.end_each(at(5), completions).await;
    let run = f.pipeline_run(id).await;
    assert_eq!(run.progress.status, PipelineStatus::Aborted);
    assert_eq!(run.progress.counts, counts([20, 7, 0, 3], true), "what was held ends");
    let told = f.told_by("pipeline.abort").await;
    assert_eq!(told.len(), 1);
    let told = details(&told[0]);
    assert_eq!(
        (&told["processed"], &told["failed"], &told["rate"], &told["budget"]),
        (&json!(8), &json!(3), &json!(0.375), &json!(0.25))
    );
    assert_eq!(run.stop_reason.as_deref(), told["why"].as_str());
    assert_eq!(run.ended_at, Some(at(5)));
    assert_eq!(f.samples_at(0, 9, at(6)).await, [], "the rest stays pending");

    let lenient =
        PipelineRules { budget: FailureBudget { rate: 0.9, ..rules.budget.clone() }, ..rules };
    let resumed = f.change_run(id, PipelineAction::Resume(lenient.clone())).await;
    assert_eq!(resumed, PipelineChange::Done(PipelineStatus::Aborted));
    let run = f.pipeline_run(id).await;
    assert_eq!((run.progress.status, run.rules), (PipelineStatus::Running, lenient));
    assert_eq!(run.progress.budget, BudgetCount::default(), "it counts afresh");
    assert_eq!((run.ended_at, run.stop_reason), (None, None));
    f.end_each(at(7), (0..10).map(|_| answered("1")).collect()).await;
    let progress = f.progress(id).await;
    assert_eq!(progress.status, PipelineStatus::PartialSuccess);
    assert_eq!(progress.counts, counts([20, 17, 0, 3], true));
}

// PIP-6
pub async fn excluded_failures_and_too_few_samples_stop_nothing(f: &Fixture) {
    let budget = FailureBudget {
        rate: 0.0,
        every: 1,
        min_samples: 4,
        exclude: vec!["rate_limited".to_owned()],
    };
    let rules = PipelineRules { budget, ..PipelineRules::default() };
    let feed = f.reading(&NewPipelineRun { rules, ..new_run() }).await;
    let id = PipelineRunId(feed.id);
    f.feed(feed, &lines(1..=9), false).await;
    f.end_each(at(5), vec![broken(), broken(), broken()]).await;
    assert_eq!(f.progress(id).await.status, PipelineStatus::Running, "three are too few");
    let busy = || super::pipeline_samples::dead(Failure::http(429, None, "busy"));
    f.end_each(at(6), vec![busy()]).await;
    let run = f.pipeline_run(id).await;
    assert_eq!(run.progress.status, PipelineStatus::Aborted, "the fourth looks at all of them");
    assert_eq!(run.progress.budget, BudgetCount { processed: 4, failed: 3 });
    let resumed = f.change_run(id, PipelineAction::Resume(run.rules)).await;
    assert_eq!(resumed, PipelineChange::Done(PipelineStatus::Aborted));
    f.end_each(at(7), vec![busy(), busy(), busy(), busy(), busy()]).await;
    let progress = f.progress(id).await;
    assert_eq!(progress.status, PipelineStatus::Running, "an outage does not count");
    assert_eq!(progress.counts, counts([9, 0, 0, 9], false));
}

// PIP-6, PIP-8
pub async fn a_cancelled_run_gives_nothing_and_lets_what_is_held_end(f: &Fixture) {
    let feed = f.reading(&new_run()).await;
    let id = PipelineRunId(feed.id);
    f.feed(feed, &lines(1..=3), false).await;
    let held = f.samples_at(0, 2, at(2)).await;
    f.cancel_pipeline_run(id).await;
    let run = f.pipeline_run(id).await;
    assert_eq!((run.progress.status, run.ended_at), (PipelineStatus::Cancelled, Some(at(50))));
    assert_eq!(run.stop_reason.as_deref(), Some("cancelled by ada: looks wrong"));
    assert_eq!(f.samples_at(0, 9, at(51)).await, []);
    assert_eq!(f.store.claim_feeds(&feed_claim(at(51))).await.expect("claimed"), []);
    let added = f.store.append_samples(feed, &lines(4..=4), &position(4, true), at(51)).await;
    assert_eq!(added.expect("answered"), None);
    let last =
        |sample| SampleFinish { last_stage: true, ..ended(sample, 0, at(52), answered("1")) };
    let written = f.store.finish_samples(&[last(&held[0]), last(&held[1])]).await;
    assert_eq!(written.expect("answered"), [SampleWritten::Applied; 2]);
    let run = f.pipeline_run(id).await;
    assert_eq!(run.progress.counts, counts([3, 2, 0, 0], false));
    assert_eq!((run.progress.status, run.ended_at), (PipelineStatus::Cancelled, Some(at(50))));

    let again = f.change_run(id, PipelineAction::Cancel).await;
    assert_eq!(again, PipelineChange::Refused(PipelineStatus::Cancelled));
    let resumed = f.change_run(id, PipelineAction::Resume(run.rules)).await;
    assert_eq!(resumed, PipelineChange::Done(PipelineStatus::Cancelled));
    assert_eq!(f.samples_at(0, 9, at(53)).await.len(), 1);
    f.feed(feed, &lines(4..=4), true).await;
    let actions = async |action| f.told_by(action).await.len();
    assert_eq!((actions("pipeline.cancel").await, actions("pipeline.resume").await), (1, 1));
}

// PIP-8
pub async fn a_run_that_is_over_is_not_stopped_or_resumed(f: &Fixture) {
    let id = f.run_of(0).await;
    assert_eq!(f.progress(id).await.status, PipelineStatus::Completed);
    let refused = PipelineChange::Refused(PipelineStatus::Completed);
    assert_eq!(f.change_run(id, PipelineAction::Cancel).await, refused);
    assert_eq!(f.change_run(id, PipelineAction::Resume(new_run().rules)).await, refused);
    let unknown = PipelineRunId(id.0 + 1);
    assert_eq!(f.change_run(unknown, PipelineAction::Cancel).await, PipelineChange::Unknown);
    assert_eq!(f.told_by("pipeline.cancel").await, []);
    assert_eq!(f.told_by("pipeline.resume").await, []);
}

// PIP-6
pub async fn a_stopped_run_with_nothing_left_is_over_when_it_is_resumed(f: &Fixture) {
    let id = f.run_of(1).await;
    let held = f.sample_at(0, at(2)).await;
    f.cancel_pipeline_run(id).await;
    f.end_sample(&held, 0, at(3), broken()).await;
    assert_eq!(f.progress(id).await.status, PipelineStatus::Cancelled);
    f.change_run(id, PipelineAction::Resume(new_run().rules)).await;
    let run = f.pipeline_run(id).await;
    assert_eq!((run.progress.status, run.ended_at), (PipelineStatus::Failed, Some(at(50))));
}

// PIP-5, PIP-8
pub async fn stages_tell_where_samples_are_and_how_they_fared(f: &Fixture) {
    let id = f.run_of(9).await;
    let other = NewPipelineRun { pipeline: "q".to_owned(), ..new_run() };
    let feed = f.reading(&other).await;
    f.feed(feed, &lines(1..=2), false).await;
    let first = f.samples_at(0, 7, at(2)).await;
    f.end_sample(&first[0], 0, at(3), answered("1")).await;
    f.end_sample(&first[1], 0, at(3), answered("1")).await;
    f.end_sample(&first[2], 0, at(3), skipped()).await;
    f.end_sample(&first[3], 0, at(3), broken()).await;
    let retry = super::pipeline_samples::retried(at(3), Duration::from_secs(1), true);
    f.end_sample(&first[4], 0, at(3), retry.clone()).await;
    f.end_sample(&first[5], 0, at(3), retry).await;
    let again = f.store.claim_samples(&claim_at(0, 1, at(9))).await.expect("claimed");
    f.end_sample(&again[0], 0, at(10), answered("2")).await;
    let second = f.sample_at(1, at(11)).await;
    f.end_sample(&second, 1, at(12), answered("3")).await;

    let counts = f.store.stage_counts(id).await.expect("read");
    let expect = |[ready, running, retrying, skipped, dlq]: [u64; 5]| redrive_store::StageCount {
        ready,
        running,
        retrying,
        skipped,
        dlq,
        source_dlq: 0,
    };
    assert_eq!(counts, [expect([2, 1, 1, 1, 1]), expect([2, 0, 0, 0, 0])]);
    assert_eq!(redrive_store::StageCount::done(9, &counts), [3, 1]);

    let stats = f.store.stage_stats(id).await.expect("read");
    use redrive_store::AttemptOutcome as O;
    assert_eq!(stats.len(), 2);
    assert_eq!((stats[0].stage.as_str(), stats[1].stage.as_str()), ("clean", "score"));
    assert_eq!(stats[0].executions, [(1, 5), (2, 1)]);
    let mut outcomes = stats[0].outcomes.clone();
    outcomes.sort_by_key(|(outcome, _)| outcome.name());
    assert_eq!(outcomes, [(O::Failed, 1), (O::Retrying, 2), (O::Skipped, 1), (O::Success, 3)]);
    assert_eq!(stats[0].codes, [("503".to_owned(), 2), ("422".to_owned(), 1)]);
    assert_eq!(
        (&stats[1].executions[..], &stats[1].outcomes[..]),
        (&[(1, 1)][..], &[(O::Success, 1)][..])
    );
    let unknown = PipelineRunId(id.0 + 9);
    assert_eq!(f.store.stage_counts(unknown).await.expect("read"), []);
    assert_eq!(f.store.stage_stats(unknown).await.expect("read"), []);
}
