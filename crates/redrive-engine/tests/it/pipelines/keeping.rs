//! Samples that stay with their worker from stage to stage: no more than can be begun, and none for ever.

use std::sync::Arc;

use redrive_core::SampleStatus;
use redrive_engine::{
    Call, Engine, Handler, Outcome, Pipeline, Stage, Stopper, Until, checker::check, handler_fn,
};
use redrive_store::SampleRecord;
use tokio::sync::Semaphore;

use super::plant::{Plant, add, numbers};

/// A stage that lets samples through one by one, as somebody says.
fn gated(gate: &Arc<Semaphore>) -> Arc<dyn Handler> {
    let gate = gate.clone();
    handler_fn(move |call: Call| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            Outcome::Answered { value: Some(call.details["data"].clone()), verdict: None }
        }
    })
}

/// Waits until so many samples are at the second stage.
async fn at_the_gate(plant: &Plant, count: usize) -> Vec<SampleRecord> {
    loop {
        let pending = plant.samples(SampleStatus::Pending).await;
        let there: Vec<_> = pending.into_iter().filter(|sample| sample.stage == 1).collect();
        if there.len() == count {
            return there;
        }
        tokio::task::yield_now().await;
    }
}

// PIP-1, OPS-6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_keeps_no_more_samples_than_it_begins_and_hands_them_back_when_it_stops() {
    let plant = Plant::new();
    let gate = Arc::new(Semaphore::new(0));
    let mut gated = Stage::new("gated", gated(&gate)).with_concurrency(3);
    gated.limits.grace = std::time::Duration::from_millis(1);
    let pipeline =
        Pipeline::new("p", numbers(100)).with_stage(Stage::new("a", add("a"))).with_stage(gated);
    let id = plant.start(&pipeline).await;
    let engine = Engine::new(plant.store.clone()).with_pipeline(pipeline.clone());
    let (stopper, stop) = Stopper::new();
    let watching = async {
        let there = at_the_gate(&plant, 100).await;
        let held = there.iter().filter(|sample| sample.lease_owner.is_some()).count();
        assert!(held <= 3, "{held} samples are held, and three can be begun");
        stopper.stop();
    };
    let (ended, ()) = tokio::join!(engine.run(stop, Until::Stopped), watching);
    ended.unwrap();
    let there = at_the_gate(&plant, 100).await;
    assert!(there.iter().all(|sample| sample.lease_owner.is_none() && sample.attempts == 0));
    let report = check(&*plant.store).await.unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    gate.add_permits(100);
    plant.drain(&pipeline).await;
    assert_eq!(plant.record(id).await.progress.counts.succeeded, 100);
}

// PIP-1, OPS-7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_worker_cannot_begin_another_does() {
    let plant = Plant::new();
    let (shut, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(1_000)));
    let through = |gate: &Arc<Semaphore>| {
        let gated = Stage::new("gated", gated(gate)).with_concurrency(2);
        Pipeline::new("p", numbers(60)).with_stage(Stage::new("a", add("a"))).with_stage(gated)
    };
    let id = plant.start(&through(&shut)).await;
    let engine = |gate| Engine::new(plant.store.clone()).with_pipeline(through(gate));
    let (stuck, free) = (engine(&shut), engine(&open));
    let (stopper, stop) = Stopper::new();
    let watching = async {
        at_the_gate(&plant, 60).await;
        let (other, other_stop) = Stopper::new();
        let helped = async {
            while plant.record(id).await.progress.counts.succeeded < 58 {
                tokio::task::yield_now().await;
            }
            shut.add_permits(2);
            while plant.record(id).await.progress.counts.succeeded < 60 {
                tokio::task::yield_now().await;
            }
            other.stop();
        };
        let (ended, ()) = tokio::join!(free.run(other_stop, Until::Stopped), helped);
        ended.unwrap();
        stopper.stop();
    };
    let (ended, ()) = tokio::join!(stuck.run(stop, Until::Stopped), watching);
    ended.unwrap();
    let report = check(&*plant.store).await.unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}
