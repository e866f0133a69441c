//! What is older than the rest of a busy queue does not wait behind it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use jiff::SignedDuration;
use redrive_engine::{
    Call, Clock, Engine, Outcome, Queue, Stopper, SystemClock, Until, handler_fn,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{NewRun, Store};
use serde_json::json;
use tokio::sync::mpsc;

use crate::program::soon;

const WAITING: u64 = 100_000;

/// What a worker has claimed ahead at most, and what it claims meanwhile: a tenth of a second at the rates of the
/// benchmarks.
const AHEAD: u64 = 10_000;

// RUN-2
#[tokio::test]
async fn an_old_run_that_comes_to_a_busy_queue_starts_before_what_was_not_claimed_yet() {
    let now = SystemClock.now();
    let store = SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let waiting: Vec<NewRun> =
        (1..=WAITING).map(|n| NewRun::new("busy", &json!(n), now).unwrap()).collect();
    store.submit_runs(&waiting, now).await.unwrap();
    let (started, mut starts) = mpsc::unbounded_channel();
    let count = AtomicU64::new(0);
    let handler = handler_fn(move |call: Call| {
        let before = count.fetch_add(1, Ordering::SeqCst);
        let is_old = call.details.get("payload") == Some(&json!("old"));
        // The receiver is dropped once the old run has started.
        _ = started.send((before, is_old));
        async { Outcome::Answered { value: None, verdict: None } }
    });
    let engine =
        Engine::new(store.clone()).with_queue(Queue::new("busy", handler).with_concurrency(4));
    let (stopper, stop) = Stopper::new();
    let running = tokio::spawn(async move { engine.run(stop, Until::Stopped).await });
    soon(starts.recv()).await.unwrap();

    let old = NewRun::new("busy", &json!("old"), now - SignedDuration::from_hours(1)).unwrap();
    store.submit_runs(&[old], now).await.unwrap();
    let submitted_after = starts.len() as u64;
    let started_after = loop {
        let (before, is_old) = soon(starts.recv()).await.unwrap();
        if is_old {
            break before;
        }
    };
    stopper.stop();
    soon(running).await.unwrap().unwrap();
    // It may start before the submit is answered.
    let between = started_after.saturating_sub(submitted_after);
    assert!(between < AHEAD, "{between} of {WAITING} younger runs started before it");
}
