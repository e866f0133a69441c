//! Who does what when: several engines on one run, stops in the middle, waits that hold nobody up.

use std::{sync::Arc, time::Duration};

use redrive_core::{Class, Code, Failure, PipelineRunId, PipelineStatus, SampleStatus};
use redrive_engine::{
    Call, Engine, Outcome, Pipeline, Stage, Stopper, Until, checker::check, handler_fn,
};
use tokio::sync::Semaphore;

use super::plant::{Counter, Plant, failing, numbers};

// PIP-1, OPS-7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_engines_share_a_run_and_nothing_is_done_twice() {
    let plant = Plant::new();
    let counter = Arc::new(Counter::default());
    let pipeline = Pipeline::new("p", numbers(3_000))
        .with_stage(Stage::new("a", failing(&counter, |_, _| None)))
        .with_read_ahead(200);
    let id = plant.start(&pipeline).await;
    tokio::join!(plant.drain(&pipeline), plant.drain(&pipeline));
    assert_eq!(plant.record(id).await.progress.counts.succeeded, 3_000);
    assert_eq!(counter.calls().len(), 3_000);
    assert!(counter.calls().values().all(|calls| *calls == 1));
}

/// WorkerSet until enough samples have been called, and is then told to stop.
async fn work_until(plant: &Plant, pipeline: &Pipeline, counter: &Counter, calls: usize) {
    let engine = Engine::new(plant.store.clone()).with_pipeline(pipeline.clone());
    let (stopper, stop) = Stopper::new();
    let stopping = async {
        while counter.calls().len() < calls {
            tokio::task::yield_now().await;
        }
        stopper.stop();
    };
    let (ended, ()) = tokio::join!(engine.run(stop, Until::Stopped), stopping);
    ended.unwrap();
    let report = check(&*plant.store).await.unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

// PIP-2, OPS-6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_stopped_while_its_source_is_read_goes_on_where_it_was() {
    let plant = Plant::new();
    let counter = Arc::new(Counter::default());
    let pipeline = Pipeline::new("p", numbers(2_000))
        .with_stage(Stage::new("a", failing(&counter, |_, _| None)).with_concurrency(2))
        .with_read_ahead(50);
    let id = plant.start(&pipeline).await;
    for calls in [1, 100, 700] {
        work_until(&plant, &pipeline, &counter, calls).await;
        let run = plant.record(id).await;
        assert!(run.feed.is_none(), "its source was handed back");
        assert_eq!(run.progress.status, PipelineStatus::Running);
        let pending = plant.samples(SampleStatus::Pending).await;
        assert!(pending.iter().all(|sample| sample.lease_owner.is_none()), "{pending:?}");
        assert!(pending.iter().all(|sample| sample.attempts == 0), "uncounted");
    }
    plant.drain(&pipeline).await;
    assert_eq!(plant.record(id).await.progress.counts.succeeded, 2_000);
    assert!(counter.calls().values().all(|calls| *calls == 1), "nothing was done again");
}

async fn wait_for(
    plant: &Plant,
    id: PipelineRunId,
    enough: impl Fn(&redrive_core::SampleCounts) -> bool,
) {
    while !enough(&plant.record(id).await.progress.counts) {
        tokio::task::yield_now().await;
    }
}

// PIP-2, PIP-9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_read_than_may_be_unfinished() {
    let plant = Plant::new();
    let gate = Arc::new(Semaphore::new(0));
    let waiting = gate.clone();
    let stage = handler_fn(move |call: Call| {
        let gate = waiting.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            Outcome::Answered { value: Some(call.details["data"].clone()), verdict: None }
        }
    });
    let pipeline =
        Pipeline::new("p", numbers(100)).with_stage(Stage::new("a", stage)).with_read_ahead(7);
    let id = plant.start(&pipeline).await;
    let opening = async {
        for through in 0..100_u64 {
            let room = (through + 7).min(100);
            wait_for(&plant, id, |tally| tally.total == room && tally.succeeded == through).await;
            gate.add_permits(1);
        }
    };
    tokio::join!(plant.drain(&pipeline), opening);
    let run = plant.record(id).await;
    assert_eq!((run.progress.status, run.progress.counts.total), (PipelineStatus::Completed, 100));
}

// PIP-3, RUN-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_in_a_long_rate_limit_hold_no_slot_and_no_one_else_up() {
    let plant = Plant::new();
    let counter = Arc::new(Counter::default());
    // Every second sample is sent away for an hour; there is one slot, and room for a few samples more
    // than will wait.
    let limited = |n: u64, _| {
        let retry_after = Some(Duration::from_secs(3_600));
        let class = Class::RateLimited { retry_after };
        (n % 2 == 1).then(|| Failure::reported(Some(class), Code::Number(429), "slow down"))
    };
    let pipeline = Pipeline::new("p", numbers(200))
        .with_stage(Stage::new("call", failing(&counter, limited)).with_concurrency(1))
        .with_stage(Stage::new("after", failing(&Arc::default(), |_, _| None)))
        .with_read_ahead(103);
    let id = plant.start(&pipeline).await;
    let engine = Engine::new(plant.store.clone()).with_pipeline(pipeline.clone());
    let (stopper, stop) = Stopper::new();
    let watching = async {
        wait_for(&plant, id, |tally| tally.succeeded == 100 && tally.source_done).await;
        while counter.calls().len() < 200 {
            tokio::task::yield_now().await;
        }
        stopper.stop();
    };
    let (ended, ()) = tokio::join!(engine.run(stop, Until::Stopped), watching);
    ended.unwrap();
    let pending = plant.samples(SampleStatus::Pending).await;
    assert_eq!(pending.len(), 100);
    for sample in &pending {
        assert!(sample.next_retry_at.is_some() && sample.lease_owner.is_none(), "{sample:?}");
        assert_eq!((sample.attempts, sample.retry_count, sample.deferrals), (1, 0, 1));
    }
    assert!(counter.calls().values().all(|calls| *calls == 1));
}
