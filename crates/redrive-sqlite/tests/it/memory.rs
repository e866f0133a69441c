//! A database in memory: the same store, gone when it is dropped.

use std::sync::Arc;

use redrive_core::RunStatus;
use redrive_sqlite::{Location, SqliteOptions, SqliteStore, WriterMode};
use redrive_store::{Runs as _, Store as _};

use crate::scratch::{all_runs, at, claim, passed, submit};

fn open(writer: WriterMode) -> SqliteStore {
    let options = SqliteOptions { writer, ..SqliteOptions::default() };
    SqliteStore::open(Location::Memory, options, at(0)).unwrap()
}

// OPS-1
#[tokio::test]
async fn a_run_lives_its_life_in_memory() {
    for writer in [WriterMode::Thread, WriterMode::Inline] {
        let store = open(writer);
        let ids = submit(&store, 3).await;
        let claimed = store.claim_runs(&claim(2)).await.unwrap();
        let finishes: Vec<_> = claimed.iter().map(passed).collect();
        let _ = store.finish_runs(&finishes, at(2)).await.unwrap();
        let runs = store.runs_by_id(&ids).await.unwrap();
        let statuses = Vec::from_iter(runs.iter().map(|run| run.status));
        let expected = [RunStatus::Passed, RunStatus::Passed, RunStatus::Discovered];
        assert_eq!(statuses, expected);
        store.ping().await.unwrap();
        assert_eq!(store.integrity_problems().await.unwrap(), [""; 0]);
        assert!(store.describe().contains("memory"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_share_a_database_in_memory() {
    let store = Arc::new(open(WriterMode::Thread));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let store = Arc::clone(&store);
        tasks.spawn(async move { submit(&store, 2).await });
    }
    tasks.join_all().await;
    assert_eq!(all_runs(&store).await.len(), 32);
}

#[tokio::test]
async fn stores_in_memory_are_strangers() {
    let (one, other) = (open(WriterMode::Inline), open(WriterMode::Inline));
    submit(&one, 1).await;
    assert_eq!(all_runs(&other).await, []);
}
