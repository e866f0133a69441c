//! A queue takes no more runs than its handler has room for, and lets it rest at the end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use redrive_engine::{
    Call, Clock, Engine, Handler, Outcome, Queue, Stop, Stopper, SystemClock, Until,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{NewRun, Store};
use serde_json::json;

use crate::program::soon;

/// Counts the calls it has, and how often it was let go.
#[derive(Default)]
struct Narrow {
    now: AtomicUsize,
    most: AtomicUsize,
    released: AtomicUsize,
}

#[async_trait]
impl Handler for Narrow {
    async fn handle(&self, _: &Call, _: Duration, _: Stop) -> Outcome {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        Outcome::Answered { value: None, verdict: None }
    }

    fn capacity(&self) -> Option<usize> {
        Some(2)
    }

    async fn release(&self) {
        assert_eq!(self.now.load(Ordering::SeqCst), 0, "a call is under way");
        self.released.fetch_add(1, Ordering::SeqCst);
    }
}

// HANDLERS-3
#[tokio::test]
async fn a_queue_takes_no_more_runs_than_its_handler_has_room_for() {
    let now = SystemClock.now();
    let store = SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let handler = Arc::new(Narrow::default());
    let engine =
        Engine::new(store).with_queue(Queue::new("one", handler.clone()).with_concurrency(16));
    let runs: Vec<NewRun> = (0..20).map(|n| NewRun::new("one", &json!(n), now).unwrap()).collect();
    engine.submit(&runs).await.unwrap();
    let (_stopper, stop) = Stopper::new();
    soon(engine.run(stop, Until::Drained)).await.unwrap();
    assert_eq!(handler.most.load(Ordering::SeqCst), 2);
    assert_eq!(handler.released.load(Ordering::SeqCst), 1);
}
