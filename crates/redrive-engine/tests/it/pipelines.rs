//! Pipelines, from their source to their end, in one process.

mod plant;

mod answers;
mod keeping;
mod sharing;
mod sources;

use std::sync::Arc;

use redrive_core::{
    Class, Code, Failure, FailureBudget, PipelineRules, PipelineStatus, SampleStatus,
};
use redrive_engine::{Pipeline, Stage};
use redrive_store::{UnitKind, UnitRow};
use serde_json::{Value, json};

use self::plant::{Counter, Plant, add, at_once, failing, numbers};

// PIP-1, PIP-3, PIP-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_go_through_every_stage_in_order_and_the_run_is_completed() {
    let plant = Plant::new();
    let pipeline = Pipeline::new("p", numbers(2_500))
        .with_stage(Stage::new("a", add("a")))
        .with_stage(Stage::new("b", add("b")))
        .with_stage(Stage::new("c", add("c")).with_concurrency(2));
    let run = plant.run(&pipeline).await;
    assert_eq!(run.progress.status, PipelineStatus::Completed);
    assert_eq!(run.progress.counts.total, 2_500);
    assert_eq!(run.progress.counts.succeeded, 2_500);
    let expected: Vec<Value> =
        (0..2_500).map(|n| json!({ "n": n, "a": 1, "b": 1, "c": 1 })).collect();
    assert_eq!(plant.data(SampleStatus::Succeeded).await, expected);
}

// PIP-1, PIP-3, PIP-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_failed_stage_is_tried_again_and_what_fails_for_good_is_a_dead_letter() {
    let plant = Plant::new();
    let (before, flaky, after) =
        (Arc::new(Counter::default()), Arc::new(Counter::default()), Arc::new(Counter::default()));
    let fails = |n: u64, call: u32| match n {
        3 if call < 3 => Some(Failure::http(503, None, "busy")),
        5 => Some(Failure::http(500, None, "broken")),
        7 => Some(Failure::reported(Some(Class::Final), Code::Number(400), "never")),
        _ => None,
    };
    let pipeline = Pipeline::new("p", numbers(10))
        .with_stage(Stage::new("before", failing(&before, |_, _| None)))
        .with_stage(Stage::new("flaky", failing(&flaky, fails)).with_policy(at_once(3)))
        .with_stage(Stage::new("after", failing(&after, |_, _| None)));
    let run = plant.run(&pipeline).await;
    assert_eq!(run.progress.status, PipelineStatus::PartialSuccess);
    let tally = run.progress.counts;
    assert_eq!((tally.total, tally.succeeded, tally.dlq, tally.pending()), (10, 8, 2, 0));
    assert!(before.calls().values().all(|calls| *calls == 1), "finished stages are not done again");
    let calls = flaky.calls();
    assert_eq!((calls[&0], calls[&3], calls[&5], calls[&7]), (1, 3, 3, 1));
    assert_eq!(after.calls().len(), 8);
    let dead = plant.samples(SampleStatus::Dlq).await;
    let reasons: Vec<_> = dead
        .iter()
        .map(|s| (s.stage_name.as_str(), s.attempts, s.error_code.as_deref().unwrap()))
        .collect();
    assert_eq!(reasons, [("flaky", 3, "500"), ("flaky", 1, "400")]);
    let unit = UnitRow { kind: UnitKind::Sample, id: dead[0].id.0, stage: "flaky".to_owned() };
    let ledger = plant.store.attempts_of(&unit, redrive_core::AttemptNumber(0), 10).await.unwrap();
    let outcomes: Vec<_> = ledger.iter().map(|row| row.outcome.name()).collect();
    assert_eq!(outcomes, ["retrying", "retrying", "failed"]);
}

// PIP-6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_over_its_budget_stops_and_goes_on_when_it_is_resumed() {
    let plant = Plant::new();
    let counter = Arc::new(Counter::default());
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let is_broken = broken.clone();
    let fails = move |_, _| {
        is_broken
            .load(std::sync::atomic::Ordering::SeqCst)
            .then(|| Failure::reported(Some(Class::Final), Code::Number(401), "bad key"))
    };
    let budget = FailureBudget { every: 100, ..FailureBudget::default() };
    let pipeline = Pipeline::new("p", numbers(5_000))
        .with_stage(Stage::new("call", failing(&counter, fails)).with_policy(at_once(1)))
        .with_rules(PipelineRules { budget, ..PipelineRules::default() })
        .with_read_ahead(500);
    let run = plant.run(&pipeline).await;
    assert_eq!(run.progress.status, PipelineStatus::Aborted);
    let why = run.stop_reason.clone().unwrap();
    assert_eq!(why, "failure rate 100 % exceeds the budget of 10 %: 100 of 100 failed");
    let dead = run.progress.counts.dlq;
    assert!((100..2_000).contains(&dead), "what was running ended, nothing else: {dead}");
    broken.store(false, std::sync::atomic::Ordering::SeqCst);
    plant.drain(&pipeline).await;
    assert_eq!(plant.record(run.id).await.progress.counts.dlq, dead, "nothing is claimed");
    let action = redrive_store::PipelineAction::Resume(pipeline.rules.clone());
    plant.store.change_pipeline_run(run.id, &action, &Plant::operator()).await.unwrap();
    plant.drain(&pipeline).await;
    let run = plant.record(run.id).await;
    let tally = run.progress.counts;
    assert_eq!((tally.total, tally.succeeded), (5_000, 5_000 - dead));
    assert_eq!(counter.calls().values().filter(|calls| **calls > 1).count(), 0);
}

// PIP-2, PIP-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_are_no_samples_are_dead_letters_and_the_rest_goes_on() {
    let plant = Plant::new();
    let huge = format!("\"{}\"", "x".repeat(20 * 1024 * 1024));
    let source = plant.file(&format!("\u{feff}{{\"n\":1}}\nnot json\n\n  \n{huge}\n{{\"n\":2}}"));
    let pipeline = Pipeline::new("p", source).with_stage(Stage::new("a", add("a")));
    let run = plant.run(&pipeline).await;
    let tally = run.progress.counts;
    assert_eq!((tally.total, tally.succeeded, tally.dlq), (4, 2, 2));
    let dead = plant.samples(SampleStatus::Dlq).await;
    let codes: Vec<_> = dead.iter().map(|s| (s.line, s.error_code.as_deref().unwrap())).collect();
    assert_eq!(codes, [(2, "bad_line"), (5, "too_large")]);
    assert!(dead.iter().all(|s| s.stage_name == "source"));
}
