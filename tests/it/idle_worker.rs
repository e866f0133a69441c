//! What an idle worker asks of PostgreSQL.

use std::{sync::Arc, time::Duration};

use redrive::{
    Call, Clock, Engine, NewRun, Outcome, Queue, Stopper, SubmittedRun, SystemClock, Until,
    handler_fn, serde_json::json,
};

use crate::databases::{execute, fresh_postgres, texts};

/// Long enough for a few checks with the lease below.
const IDLE: Duration = Duration::from_secs(3);

const LEASE: Duration = Duration::from_secs(1);

/// Serves so many queues for a while, and returns how often claims were read.
async fn searches(url: &str, queues: usize) -> u64 {
    let migrator = redrive::migrator(&url.parse().unwrap()).unwrap();
    migrator.migrate_to(migrator.latest(), SystemClock.now()).await.unwrap();
    let store = redrive::open(url).await.unwrap();
    let handler = handler_fn(|_: Call| async { Outcome::Answered { value: None, verdict: None } });
    let engine = (0..queues).fold(Engine::new(Arc::clone(&store)), |engine, number| {
        let mut queue = Queue::new(format!("q{number}"), handler.clone());
        queue.limits.lease = LEASE;
        engine.with_queue(queue)
    });
    let run = NewRun::new("q0", &json!({}), SystemClock.now()).unwrap();
    let submitted = engine.submit(&[run]).await.unwrap();
    let (_stopper, stop) = Stopper::new();
    tokio::time::timeout(IDLE, engine.run(stop, Until::Stopped)).await.unwrap_err();
    let SubmittedRun::Accepted(id) = submitted[0] else { panic!("{submitted:?}") };
    assert_eq!(store.runs_by_id(&[id]).await.unwrap()[0].status.name(), "passed");
    drop((engine, store));
    let url = url.to_owned();
    // Sessions report their statistics when they end.
    tokio::task::spawn_blocking(move || {
        execute(&url, "SELECT pg_stat_clear_snapshot()");
        let sql = "SELECT (seq_scan + idx_scan)::text FROM pg_stat_user_tables
            WHERE schemaname = 'redrive' AND relname = 'run_claims'";
        texts(&url, sql)[0].parse().unwrap()
    })
    .await
    .unwrap()
}

// RUN-7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_queues_look_for_lost_workers_as_often_as_one() {
    let fresh = || tokio::task::spawn_blocking(fresh_postgres);
    let one = searches(&fresh().await.unwrap(), 1).await;
    let ten = searches(&fresh().await.unwrap(), 10).await;
    // A reaper for each queue would search ten times as often.
    assert!(ten <= 2 * one.max(3), "one queue: {one}, ten queues: {ten}");
}
