//! Claims among many categories, and beside other claims.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use redrive_core::RunId;
use redrive_postgres::{MonotonicClock, PostgresOptions, PostgresStore};
use redrive_store::{Categories, ClaimRequest, NewRun, Runs, SubmittedRun, WorkerId};
use serde_json::json;

use crate::{noise::noise, server::Database};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

async fn submit(store: &PostgresStore, runs: &[(&str, i64)]) -> Vec<RunId> {
    let new: Vec<NewRun> = runs
        .iter()
        .map(|(category, seconds)| {
            let at = NOW + SignedDuration::from_secs(*seconds);
            NewRun::new("q", &json!(1), at).unwrap().with_category(category).unwrap()
        })
        .collect();
    let accepted = |answer| match answer {
        SubmittedRun::Accepted(id) => id,
        other => panic!("{other:?}"),
    };
    store.submit_runs(&new, NOW).await.unwrap().into_iter().map(accepted).collect()
}

async fn claim(store: &PostgresStore, categories: Categories, limit: u32) -> Vec<RunId> {
    let request = ClaimRequest {
        queue: "q".to_owned(),
        categories,
        limit,
        owner: WorkerId("w".to_owned()),
        lease_until: NOW,
        now: NOW,
        gates: Default::default(),
    };
    store.claim_runs(&request).await.unwrap().into_iter().map(|run| run.id).collect()
}

// RUN-2
#[tokio::test]
async fn many_categories_are_merged_by_submission() {
    let store = Database::migrated().await.store().await;
    let names: Vec<String> = (0..12).map(|n| format!("category {n}")).collect();
    let noise = noise(600);
    let runs: Vec<(&str, i64)> = noise
        .as_bytes()
        .chunks(2)
        .map(|bytes| (names[usize::from(bytes[0]) % names.len()].as_str(), i64::from(bytes[1])))
        .collect();
    let ids = submit(&store, &runs).await;
    let mut expected: Vec<(i64, RunId)> =
        runs.iter().zip(ids).map(|((_, at), id)| (*at, id)).collect();
    expected.sort_unstable();
    let mut expected = expected.into_iter().map(|(_, id)| id);
    for limit in [1, 2, 3, 50, 7, 100, 1_000] {
        for categories in [Categories::All, Categories::Only(names.clone())] {
            let oldest: Vec<RunId> = expected.by_ref().take(limit).collect();
            let limit = u32::try_from(limit).unwrap();
            assert_eq!(claim(&store, categories, limit).await, oldest);
        }
    }
    assert_eq!(expected.next(), None, "all were claimed");
}

/// A transaction that holds the runs of a category, as a claim in progress does.
async fn hold(database: &Database, category: &str, count: u32) -> tokio_postgres::Client {
    let raw = database.raw().await;
    let sql = format!(
        "BEGIN; SELECT FROM redrive.ready_runs WHERE category = '{category}'
         ORDER BY submitted_at, id LIMIT {count} FOR UPDATE"
    );
    raw.batch_execute(&sql).await.unwrap();
    raw
}

// RUN-2
#[tokio::test]
async fn a_claim_passes_over_what_another_holds() {
    let database = Database::migrated().await;
    let store = database.store().await;
    let runs: Vec<_> = (0..9).map(|n| ("a", n)).collect();
    let ids = submit(&store, &runs).await;
    let held = hold(&database, "a", 3).await;
    assert_eq!(claim(&store, Categories::All, 4).await, ids[3..7]);
    held.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(claim(&store, Categories::All, 4).await, [ids[0], ids[1], ids[2], ids[7]]);
}

/// The oldest are all of one category, and all held; a worker must not go idle for it.
#[tokio::test]
async fn a_claim_whose_share_is_held_looks_further() {
    let database = Database::migrated().await;
    let store = database.store().await;
    let ids = submit(&store, &[("a", 1), ("a", 2), ("b", 3), ("c", 4), ("b", 5)]).await;
    let held = hold(&database, "a", 2).await;
    assert_eq!(claim(&store, Categories::All, 2).await, [ids[2], ids[3]]);
    let named = Categories::Only(["a", "b"].map(str::to_owned).to_vec());
    assert_eq!(claim(&store, named, 2).await, [ids[4]]);
    held.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(claim(&store, Categories::All, 2).await, [ids[0], ids[1]]);
}

/// What another process brings is older than what was claimed last. It may come a moment late, and is
/// first as soon as that moment is over.
// RUN-2
#[tokio::test]
async fn older_runs_of_others_come_after_a_moment_at_the_latest() {
    let database = Database::migrated().await;
    let clock = Arc::new(AtomicU64::new(0));
    let ticks = clock.clone();
    let monotonic: MonotonicClock =
        Arc::new(move || Duration::from_millis(ticks.load(Ordering::SeqCst)));
    let options = PostgresOptions { monotonic: Some(monotonic), ..PostgresOptions::default() };
    let store = PostgresStore::connect(&database.url, options).await.unwrap();
    let other = database.store().await;
    let ids = submit(&store, &[("a", 10), ("a", 11), ("a", 12)]).await;
    assert_eq!(claim(&store, Categories::All, 1).await, ids[..1]);

    let older = submit(&other, &[("a", 1)]).await;
    clock.store(100, Ordering::SeqCst);
    assert_eq!(claim(&store, Categories::All, 1).await, older, "the moment is over");

    assert_eq!(claim(&store, Categories::All, 2).await, ids[1..]);
    let older = submit(&other, &[("a", 2)]).await;
    assert_eq!(claim(&store, Categories::All, 1).await, older, "there is nothing younger");
}

/// However long it takes to read the queue from its start.
// RUN-2
#[tokio::test]
async fn an_old_run_of_another_process_is_claimed_from_a_busy_queue_within_half_a_second() {
    let database = Database::migrated().await;
    let clock = Arc::new(AtomicU64::new(0));
    let ticks = clock.clone();
    // Every look at the clock takes 40 ms, so that the queue is read from its start every 800 ms.
    let monotonic: MonotonicClock =
        Arc::new(move || Duration::from_millis(ticks.fetch_add(40, Ordering::SeqCst)));
    let options = PostgresOptions { monotonic: Some(monotonic), ..PostgresOptions::default() };
    let store = PostgresStore::connect(&database.url, options).await.unwrap();
    let other = database.store().await;
    submit(&other, &vec![("a", 1_000); 100_000]).await;
    for categories in [Categories::All, Categories::Only(vec!["a".to_owned()])] {
        assert_eq!(claim(&store, categories.clone(), 100).await.len(), 100);
        let old = submit(&other, &[("a", 1)]).await;
        let submitted = clock.load(Ordering::SeqCst);
        while !claim(&store, categories.clone(), 100).await.contains(&old[0]) {}
        let waited = clock.load(Ordering::SeqCst) - submitted;
        assert!(waited < 700, "claimed after {waited} ms");
    }
}

/// What a process brings itself is known to its claims at once.
// RUN-2
#[tokio::test]
async fn older_runs_of_the_same_process_come_at_once() {
    let store = Database::migrated().await.store().await;
    let ids = submit(&store, &[("a", 10), ("a", 11)]).await;
    assert_eq!(claim(&store, Categories::All, 1).await, ids[..1]);
    let older = submit(&store, &[("b", 1)]).await;
    assert_eq!(claim(&store, Categories::All, 2).await, [older[0], ids[1]]);
}
