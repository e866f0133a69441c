//! Processes that share a database hear of each other's work.

use std::{future::Future, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use redrive_core::{Decision, Failure, GiveUpReason, PipelineRules};
use redrive_postgres::{PostgresOptions, PostgresStore};
use redrive_store::{
    Categories, ClaimRequest, ClaimedRun, GateRules, LeaseRef, LeaseRelease, Leased, Leases,
    NewPipelineRun, NewRun, NewSample, Operator, PipelineAction, Pipelines, RunCompletion,
    RunFinish, Runs, SampleClaim, SampleCompletion, SampleFinish, Samples, Served, SourceClaim,
    SourceFinish, SourcePosition, Store, WorkerId,
};
use serde_json::json;
use tokio::{
    sync::watch,
    task::{JoinSet, yield_now},
    time::timeout,
};
use tokio_postgres::Client;

use crate::server::Database;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// What takes longer does not happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A store that listens: it says so by a first wake.
async fn listening(database: &Database) -> (PostgresStore, watch::Receiver<u64>) {
    let store = database.store().await;
    let mut wakes = store.wakes();
    woken(&mut wakes, "the beginning").await;
    (store, wakes)
}

async fn woken(wakes: &mut watch::Receiver<u64>, what: &str) {
    timeout(PATIENCE, wakes.changed()).await.expect(what).expect("the store is there");
}

async fn submit(store: &PostgresStore) {
    let run = NewRun::new("q", &json!(1), NOW).unwrap();
    store.submit_runs(&[run.clone(), run], NOW).await.unwrap();
}

fn request() -> ClaimRequest {
    ClaimRequest {
        queue: "q".to_owned(),
        categories: Categories::All,
        limit: 1,
        owner: WorkerId("w".to_owned()),
        lease_until: NOW,
        now: NOW,
        gates: Default::default(),
    }
}

async fn claim(store: &PostgresStore) -> ClaimedRun {
    store.claim_runs(&request()).await.unwrap().pop().unwrap()
}

fn waits(run: &ClaimedRun) -> RunFinish {
    let delay = Duration::from_secs(60);
    RunFinish {
        id: run.id,
        epoch: run.epoch,
        attempt: run.attempt,
        history: run.history,
        started_at: NOW,
        ended_at: NOW,
        worker: WorkerId("w".to_owned()),
        completion: RunCompletion::Failed {
            failure: Failure::exit(75, "busy"),
            decision: Decision::RetryAt {
                at: NOW + SignedDuration::from_secs(60),
                delay,
                counted: true,
            },
        },
        gates: None,
    }
}

#[tokio::test]
async fn whatever_one_store_has_to_claim_wakes_who_listens_at_another() {
    let database = Database::migrated().await;
    let (_other, mut wakes) = listening(&database).await;
    let store = database.store().await;
    let by = Operator { actor: "ada".to_owned(), at: NOW, reason: None };

    submit(&store).await;
    woken(&mut wakes, "a submission").await;
    let keyed = NewRun::new("q", &json!(1), NOW).unwrap().with_idempotency_key("once").unwrap();
    store.submit_runs(&[keyed], NOW).await.unwrap();
    woken(&mut wakes, "a submission under a key").await;
    let waiting = claim(&store).await;
    // A retry that was scheduled is nothing to claim yet; who polls finds it when it is due.
    store.finish_runs(&[waits(&waiting)], NOW).await.unwrap();
    let held = claim(&store).await;
    let lease = LeaseRef { id: held.id.0, epoch: held.epoch };
    let back = LeaseRelease { lease, owner: WorkerId("w".to_owned()), why: "shutdown".to_owned() };
    store.release_leases(Leased::Run, &[back], NOW).await.unwrap();
    woken(&mut wakes, "a run that was handed back").await;
    store.retry_runs(&[waiting.id], &by).await.unwrap();
    woken(&mut wakes, "a run that was sent back").await;
    store.pause_queue("q", &by).await.unwrap();
    store.resume_queue("q", &by).await.unwrap();
    woken(&mut wakes, "a queue that was resumed").await;
}

// PIP-1
/// With a pool of one connection: none is held while others are told.
#[tokio::test]
async fn samples_to_claim_and_runs_that_are_over_wake_who_listens_at_another() {
    let database = Database::migrated().await;
    let (_other, mut wakes) = listening(&database).await;
    let options = PostgresOptions { max_connections: 1, ..PostgresOptions::default() };
    let store = PostgresStore::connect(&database.url, options).await.unwrap();
    let by = Operator { actor: "ada".to_owned(), at: NOW, reason: None };
    let (pipeline, stages) = ("p".to_owned(), vec!["a".to_owned()]);
    let owner = WorkerId("w".to_owned());

    let new = NewPipelineRun {
        pipeline: pipeline.clone(),
        stages: stages.clone(),
        rules: PipelineRules::default(),
        read_ahead: 10,
        source: "lines".to_owned(),
    };
    let run = store.start_pipeline_run(&new, &by).await.unwrap();
    woken(&mut wakes, "a run that begins").await;
    let served = Served { pipeline, stages, run: None };
    let claim =
        SourceClaim { served: served.clone(), limit: 1, owner: owner.clone(), lease_until: NOW };
    let feed = store.claim_feeds(&claim).await.unwrap()[0].0;
    let sample = NewSample { line: 1, data: Ok("{}".to_owned()), hash: None };
    let position = SourcePosition { lines: 1, done: true, ..SourcePosition::default() };
    store.append_samples(feed, &[sample], &position, NOW).await.unwrap();
    woken(&mut wakes, "a sample that was read").await;
    let finish = SourceFinish { lease: feed, failure: None, at: NOW, worker: owner.clone() };
    store.finish_feeds(&[finish]).await.unwrap();
    woken(&mut wakes, "a source that nobody reads any more").await;
    let claim = SampleClaim {
        gates: GateRules::default(),
        gate_key: None,
        served,
        stage: 0,
        limit: 1,
        owner: owner.clone(),
        lease_until: NOW,
        now: NOW,
    };
    let held = store.claim_samples(&claim).await.unwrap().pop().unwrap();
    let completion = SampleCompletion::Failed {
        failure: Failure::exit(65, "broken"),
        decision: Decision::GiveUp { reason: GiveUpReason::Final },
    };
    let finish = SampleFinish {
        gates: None,
        id: held.id,
        run,
        epoch: held.epoch,
        stage: 0,
        stage_name: "a".to_owned(),
        last_stage: true,
        stage_config_hash: "hash".to_owned(),
        attempt: held.attempt,
        history: held.history,
        started_at: NOW,
        ended_at: NOW,
        worker: owner,
        keep_until: None,
        completion,
    };
    store.finish_samples(&[finish]).await.unwrap();
    woken(&mut wakes, "a run that is over").await;
    store.reprocess_samples(&[held.id], &by).await.unwrap();
    woken(&mut wakes, "a dead letter that was brought back").await;
    store.change_pipeline_run(run, &PipelineAction::Cancel, &by).await.unwrap();
    woken(&mut wakes, "a run that was stopped").await;
}

/// Notifications come in the order of their commits: what was silent before a submission stays so.
#[tokio::test]
async fn a_call_notifies_once_and_one_that_brings_nothing_to_claim_not_at_all() {
    let database = Database::migrated().await;
    let (_other, mut wakes) = listening(&database).await;
    let store = database.store().await;
    let by = Operator { actor: "ada".to_owned(), at: NOW, reason: None };
    let before = *wakes.borrow_and_update();

    let keyed = NewRun::new("q", &json!(1), NOW).unwrap().with_idempotency_key("once").unwrap();
    store.submit_runs(std::slice::from_ref(&keyed), NOW).await.unwrap();
    store.submit_runs(&[keyed], NOW).await.unwrap();
    let run = claim(&store).await;
    store.pause_queue("q", &by).await.unwrap();
    store.resume_queue("other", &by).await.unwrap();
    store.retry_runs(&[run.id], &by).await.unwrap();
    store.cancel_runs(&[run.id], &by).await.unwrap();
    store.finish_runs(&[waits(&run)], NOW).await.unwrap();
    submit(&store).await;
    timeout(PATIENCE, wakes.wait_for(|count| *count >= before + 2)).await.unwrap().unwrap();
    assert_eq!(*wakes.borrow(), before + 2, "two submissions brought something");
}

/// Who looks only when it is told to finds everything: the last notification comes after the last
/// commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_submissions_is_told_of_together_and_to_the_last() {
    const BURST: usize = 120;
    let database = Database::migrated().await;
    let (other, mut wakes) = listening(&database).await;
    let store = Arc::new(database.store().await);
    let before = *wakes.borrow_and_update();
    let mut submitting = JoinSet::new();
    for _ in 0..BURST {
        let store = store.clone();
        submitting.spawn(async move {
            let run = NewRun::new("q", &json!(1), NOW).unwrap();
            store.submit_runs(&[run], NOW).await.unwrap();
        });
    }
    let mut found = 0;
    while found < BURST {
        woken(&mut wakes, "the last submissions").await;
        let request = ClaimRequest { limit: 1_000, ..request() };
        found += other.claim_runs(&request).await.unwrap().len();
    }
    submitting.join_all().await;
    let told = *wakes.borrow() - before;
    assert!(told < BURST as u64 / 2, "{told} notifications for {BURST} submissions");
}

/// The listeners that the server knows of in this database.
async fn listeners(raw: &Client) -> Vec<i32> {
    let sql = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND query = 'LISTEN redrive_wake'";
    raw.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn eventually<F: Future<Output = bool>>(what: &str, mut check: impl FnMut() -> F) {
    let waiting = async {
        while !check().await {
            yield_now().await;
        }
    };
    timeout(PATIENCE, waiting).await.expect(what);
}

#[tokio::test]
async fn a_listener_that_is_cut_off_comes_back() {
    let database = Database::migrated().await;
    let (_other, mut wakes) = listening(&database).await;
    let raw = database.raw().await;
    let pids = listeners(&raw).await;
    assert_eq!(pids.len(), 1);
    raw.execute("SELECT pg_terminate_backend($1)", &[&pids[0]]).await.unwrap();
    woken(&mut wakes, "it may have missed something").await;
    let again = listeners(&raw).await;
    assert!(again.len() == 1 && again != pids, "{again:?}");

    submit(&database.store().await).await;
    woken(&mut wakes, "a submission").await;
}

#[tokio::test]
async fn a_store_listens_when_someone_wants_to_hear_and_until_it_is_dropped() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    let quiet = database.store().await;
    submit(&quiet).await;
    assert_eq!(listeners(&raw).await, [0; 0], "nobody wants to hear");

    let (store, mut wakes) = listening(&database).await;
    let more = [store.wakes(), store.wakes()];
    assert_eq!(listeners(&raw).await.len(), 1, "one for all");
    drop(store);
    eventually("the listener ends", || async { listeners(&raw).await.is_empty() }).await;
    let gone = async { while wakes.changed().await.is_ok() {} };
    timeout(PATIENCE, gone).await.expect("who listens is told that the store is gone");
    drop(more);
}

/// A user may have one connection: the store works, though it can never listen.
#[tokio::test]
async fn a_store_that_cannot_listen_works_all_the_same() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    let user = format!("lonely_{}", database.name);
    raw.batch_execute(&format!(
        "CREATE ROLE {user} LOGIN PASSWORD 'secret' CONNECTION LIMIT 1;
         GRANT ALL ON SCHEMA redrive TO {user};
         GRANT ALL ON ALL TABLES IN SCHEMA redrive TO {user};
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA redrive TO {user}"
    ))
    .await
    .unwrap();
    let url = crate::server::url_as(&user, "secret", &database.name);
    let options = PostgresOptions { max_connections: 1, ..PostgresOptions::default() };
    let store = PostgresStore::connect(&url, options).await.unwrap();
    let wakes = store.wakes();
    submit(&store).await;
    assert!(wakes.has_changed().unwrap(), "heard in its own process");
    assert_eq!(listeners(&raw).await, [0; 0]);
    claim(&store).await;
}
