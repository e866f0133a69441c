//! The rows of claims, changed by several transactions at once.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use redrive_core::{Epoch, RunId};
use redrive_postgres::PostgresStore;
use redrive_store::{
    Categories, ClaimRequest, ClaimedRun, LeaseRef, LeaseRelease, Leased, Leases, NewRun, Operator,
    RunChange, RunCompletion, RunFinish, Runs, Verdict, WorkerId, Written,
};
use serde_json::json;

use crate::{faults::until_blocked, server::Database};

pub(crate) const NOW: Timestamp = Timestamp::UNIX_EPOCH;

pub(crate) async fn submit(store: &PostgresStore, count: usize) {
    let run = NewRun::new("q", &json!(1), NOW).unwrap();
    store.submit_runs(&vec![run; count], NOW).await.unwrap();
}

pub(crate) async fn claim(store: &PostgresStore, limit: u32) -> Vec<ClaimedRun> {
    let request = ClaimRequest {
        queue: "q".to_owned(),
        categories: Categories::All,
        limit,
        owner: WorkerId("w".to_owned()),
        lease_until: NOW,
        now: NOW,
        gates: Default::default(),
    };
    store.claim_runs(&request).await.unwrap()
}

pub(crate) fn passed(run: &ClaimedRun) -> RunFinish {
    RunFinish {
        id: run.id,
        epoch: run.epoch,
        attempt: run.attempt,
        history: run.history,
        started_at: NOW,
        ended_at: NOW,
        worker: WorkerId("w".to_owned()),
        completion: RunCompletion::Judged { verdict: Verdict::Passed, result: None },
        gates: None,
    }
}

/// Who changes or locks claims.
#[derive(Debug, Clone, Copy)]
enum Change {
    Finish,
    Release,
    Renew,
    Cancel,
}

impl Change {
    const ALL: [Self; 4] = [Self::Finish, Self::Release, Self::Renew, Self::Cancel];

    /// Whether all of the runs were changed.
    async fn apply(self, store: Arc<PostgresStore>, runs: Vec<ClaimedRun>) -> bool {
        let leases: Vec<LeaseRef> =
            runs.iter().map(|run| LeaseRef { id: run.id.0, epoch: run.epoch }).collect();
        let written = match self {
            Self::Finish => {
                let finishes: Vec<RunFinish> = runs.iter().map(passed).collect();
                store.finish_runs(&finishes, NOW).await.unwrap()
            }
            Self::Release => {
                let releases = LeaseRelease::each(&leases, &WorkerId("w".to_owned()), "shutdown");
                store.release_leases(Leased::Run, &releases, NOW).await.unwrap()
            }
            Self::Renew => {
                let until = NOW + SignedDuration::from_secs(9);
                store.renew_leases(Leased::Run, &leases, until).await.unwrap()
            }
            Self::Cancel => {
                let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
                let by = Operator { actor: "ada".to_owned(), at: NOW, reason: None };
                let changes = store.cancel_runs(&ids, &by).await.unwrap();
                return changes.iter().all(|change| matches!(change, RunChange::Done(_)));
            }
        };
        written.iter().all(|written| *written == Written::Applied)
    }
}

/// A renewal of some runs of a claim gives them a row of their own.
// RUN-7
#[tokio::test]
async fn a_run_whose_lease_is_renewed_meanwhile_is_still_held() {
    for change in [Change::Finish, Change::Release, Change::Cancel] {
        let database = Database::migrated().await;
        let store = Arc::new(database.store().await);
        submit(&store, 3).await;
        let runs = claim(&store, 3).await;
        let renewal = database.raw().await;
        let split = "BEGIN;
            INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, first_run, last_run, run_ids)
            SELECT epoch, queue, owner, 'infinity', first_run, last_run, '{1, 2}' FROM redrive.run_claims;
            UPDATE redrive.run_claims SET run_ids = '{3}' WHERE lease_until < 'infinity'";
        renewal.batch_execute(split).await.unwrap();
        let changed = tokio::spawn(change.apply(store.clone(), runs[..1].to_vec()));
        until_blocked(&database.raw().await).await;
        renewal.batch_execute("COMMIT").await.unwrap();
        assert!(changed.await.unwrap(), "{change:?}");
        assert!(change.apply(store, runs[1..].to_vec()).await, "{change:?} of the others");
    }
}

/// Claims of the runs 1 and 2, as (id, epoch, first run, run), in the order in which they are stored.
type TwoClaims = [(i64, i64, i64, i64); 2];

/// So nobody waits for somebody who waits for them.
#[tokio::test]
async fn everyone_locks_claims_in_one_order() {
    let cases: [TwoClaims; 2] = [[(5, 2, 2, 2), (6, 1, 1, 1)], [(6, 1, 1, 1), (5, 1, 1, 2)]];
    for (claims, change) in cases.into_iter().flat_map(|it| Change::ALL.map(|change| (it, change)))
    {
        let [second, first] = claims;
        let database = Database::migrated().await;
        let store = Arc::new(database.store().await);
        submit(&store, 2).await;
        let mut runs = claim(&store, 2).await;
        let raw = database.raw().await;
        raw.batch_execute("DELETE FROM redrive.run_claims").await.unwrap();
        for (id, epoch, first_run, run) in claims {
            let insert = format!(
                "INSERT INTO redrive.run_claims (id, epoch, queue, owner, lease_until, first_run, last_run, run_ids)
                OVERRIDING SYSTEM VALUE VALUES ({id}, {epoch}, 'q', 'w', 'epoch', {first_run}, {run}, '{{{run}}}')"
            );
            raw.batch_execute(&insert).await.unwrap();
            runs[usize::try_from(run).unwrap() - 1].epoch = Epoch(epoch);
        }
        let lock = |id: i64| {
            format!("SELECT id FROM redrive.run_claims WHERE id = {id} FOR UPDATE SKIP LOCKED")
        };
        raw.batch_execute(&format!("BEGIN; {}", lock(first.0))).await.unwrap();
        let changed = tokio::spawn(change.apply(store, runs));
        let other = database.raw().await;
        until_blocked(&other).await;
        let free = other.query(&lock(second.0), &[]).await.unwrap();
        assert_eq!(free.len(), 1, "{change:?} has locked the second of {claims:?}");
        raw.batch_execute("COMMIT").await.unwrap();
        assert!(changed.await.unwrap(), "{change:?}");
    }
}

/// A batch of two claims that share a block touches another block of each.
#[tokio::test]
async fn a_finish_waits_for_no_block_that_it_does_not_touch() {
    let database = Database::migrated().await;
    let store = Arc::new(database.store().await);
    submit(&store, 400).await;
    let (first, second) = (claim(&store, 300).await, claim(&store, 100).await);
    let raw = database.raw().await;
    let lock =
        "BEGIN; SELECT FROM redrive.run_claims WHERE epoch = 1 AND first_run = 256 FOR UPDATE";
    raw.batch_execute(lock).await.unwrap();
    let finishes = [passed(&first[0]), passed(&second[0])];
    assert_eq!(store.finish_runs(&finishes, NOW).await.unwrap(), [Written::Applied; 2]);
}

/// By blocks that have ended as a whole, blocks in pieces, and blocks of two workers; with and without results.
// RUN-3
#[tokio::test]
async fn every_pass_keeps_its_times_its_worker_and_its_result() {
    let database = Database::migrated().await;
    let store = Arc::new(database.store().await);
    submit(&store, 900).await;
    let finishes: Vec<RunFinish> = claim(&store, 900)
        .await
        .iter()
        .map(|run| {
            let (id, second) = (run.id.0, SignedDuration::from_secs(1));
            let started_at = NOW + SignedDuration::from_secs(id);
            let result = (id % 7 == 0 && id < 600).then(|| id.to_string());
            RunFinish {
                started_at,
                ended_at: started_at + second,
                worker: WorkerId(if id % 300 == 0 { "v" } else { "w" }.to_owned()),
                completion: RunCompletion::Judged { verdict: Verdict::Passed, result },
                ..passed(run)
            }
        })
        .collect();
    let (one, rest) = finishes.split_at(100);
    let (two, three) = rest.split_at(411);
    for batch in [one.to_vec(), two.iter().rev().cloned().collect(), three.to_vec()] {
        let applied = vec![Written::Applied; batch.len()];
        assert_eq!(store.finish_runs(&batch, NOW).await.unwrap(), applied);
        let stale = vec![Written::Stale; batch.len()];
        assert_eq!(store.finish_runs(&batch, NOW).await.unwrap(), stale, "the second time");
    }
    let raw = database.raw().await;
    let kept = [
        "SELECT count(*) FROM redrive.pass_attempts
         WHERE started_at = timestamptz 'epoch' + unit_id * interval '1 s' AND ended_at = started_at + interval '1 s'
            AND worker = CASE WHEN unit_id % 300 = 0 THEN 'v' ELSE 'w' END AND attempt = 1",
        "SELECT count(*) FROM redrive.run_records
         WHERE status = 'passed' AND result IS NOT DISTINCT FROM CASE WHEN id % 7 = 0 AND id < 600 THEN id::text END",
        "SELECT last_value FROM redrive.attempts_id_seq",
    ];
    for sql in kept {
        let count: i64 = raw.query_one(sql, &[]).await.unwrap().get(0);
        assert_eq!(count, 900, "{sql}");
    }
    let left = raw.query("SELECT FROM redrive.run_claims", &[]).await.unwrap();
    assert_eq!(left.len(), 0);
}
