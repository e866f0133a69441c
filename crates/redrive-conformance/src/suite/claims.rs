//! Claiming runs: their order (RUN-2) and exclusive leases.

use std::{collections::HashSet, time::Duration};

use jiff::Timestamp;
use redrive_core::{AttemptNumber, Epoch, RunId, RunStatus};

use super::{
    Fixture,
    samples::{at, claim_of, retry, run},
};
use redrive_store::{Categories, ClaimRequest, ExpiredLease, LeaseRef, Leased, WorkerId};

// RUN-2
pub async fn the_oldest_submitted_run_comes_first_and_ties_go_by_id(f: &Fixture) {
    let times = [30, 10, 20, 10].map(|seconds| run("q", "", at(seconds)));
    let ids = f.submit(&times, at(40)).await;
    let claimed = f.claim(&claim_of(10, at(50))).await;
    let order: Vec<RunId> = claimed.iter().map(|run| run.id).collect();
    assert_eq!(order, [ids[1], ids[3], ids[2], ids[0]]);
}

// RUN-2
pub async fn retries_and_new_runs_compete_by_submission(f: &Fixture) {
    let day = |n: i64| at(n * 86_400);
    let oldest = f.submit(&[run("q", "", day(1))], day(1)).await[0];
    let waiting = f.submit(&[run("q", "", day(4))], day(4)).await[0];
    for (id, retry_day) in [(oldest, 5), (waiting, 6)] {
        let claimed = f.claim_one(day(4)).await;
        assert_eq!(claimed.id, id);
        let delay = Duration::from_secs((retry_day - 4) * 86_400);
        f.end(&claimed, day(4), retry(day(4), delay, true)).await;
    }
    let new = f.submit(&[run("q", "", day(3)), run("q", "", day(4))], day(4)).await;

    let claimed = f.claim(&claim_of(10, day(5))).await;
    let order: Vec<RunId> = claimed.iter().map(|run| run.id).collect();
    assert_eq!(order, [oldest, new[0], new[1]], "the other retry is not ready yet");
}

// RUN-2
pub async fn only_allowed_categories_are_claimed(f: &Fixture) {
    let new = ["slow", "fast", "", "slow", "fast"]
        .iter()
        .enumerate()
        .map(|(n, category)| run("q", category, at(n as i64)))
        .collect::<Vec<_>>();
    let ids = f.submit(&new, at(10)).await;
    let only = |categories: &[&str], limit| ClaimRequest {
        categories: Categories::Only(categories.iter().map(|&c| c.to_owned()).collect()),
        ..claim_of(limit, at(20))
    };
    assert_eq!(f.claim(&only(&[], 10)).await, [], "an empty list allows none");
    assert_eq!(f.claim(&only(&["unknown"], 10)).await, []);

    let taken = |claimed: Vec<redrive_store::ClaimedRun>| {
        claimed.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(taken(f.claim(&only(&["fast"], 10)).await), [ids[1], ids[4]]);
    let repeated = only(&["slow", "", "slow"], 2);
    assert_eq!(taken(f.claim(&repeated).await), [ids[0], ids[2]]);
    assert_eq!(taken(f.claim(&claim_of(10, at(20))).await), [ids[3]], "an absent list allows all");
}

pub async fn a_claim_takes_no_more_than_its_limit(f: &Fixture) {
    let new: Vec<_> = (0..30).map(|n| run("q", ["a", "b", "c"][n % 3], at(n as i64))).collect();
    f.submit(&new, at(40)).await;
    for (limit, expected) in [(0, 0), (7, 7), (20, 20), (20, 3), (20, 0)] {
        assert_eq!(f.claim(&claim_of(limit, at(50))).await.len(), expected);
    }
}

pub async fn a_claim_leaves_other_queues_alone(f: &Fixture) {
    let ids = f.submit(&[run("other", "", at(0)), run("q", "", at(1))], at(2)).await;
    let claimed = f.claim(&claim_of(10, at(3))).await;
    assert_eq!(claimed.iter().map(|run| run.id).collect::<Vec<_>>(), [ids[1]]);
    assert_eq!(f.run(ids[0]).await.status, RunStatus::Discovered);
}

// RUN-1
pub async fn a_run_is_not_claimed_before_its_time(f: &Fixture) {
    let late = run("q", "", at(0)).with_not_before(at(100));
    let past = run("q", "", at(1)).with_not_before(at(5));
    let ids = f.submit(&[late, past], at(10)).await;
    let at_once = f.claim(&claim_of(10, at(99))).await;
    assert_eq!(at_once.iter().map(|run| run.id).collect::<Vec<_>>(), [ids[1]]);
    let later = f.claim(&claim_of(10, at(100))).await;
    assert_eq!(later.iter().map(|run| run.id).collect::<Vec<_>>(), [ids[0]]);
}

// RUN-2, RUN-4
pub async fn a_retry_is_not_claimed_before_its_time(f: &Fixture) {
    f.submit(&[run("q", "", at(0))], at(0)).await;
    let claimed = f.claim_one(at(1)).await;
    f.end(&claimed, at(2), retry(at(2), Duration::from_secs(60), true)).await;
    let waiting = f.run(claimed.id).await;
    assert_eq!((waiting.lease_owner, waiting.lease_until), (None, None), "waiting holds no lease");
    assert_eq!(f.claim(&claim_of(10, at(61))).await, []);
    assert_eq!(f.claim(&claim_of(10, at(62))).await.len(), 1);
}

// RUN-2
pub async fn a_crowd_of_due_runs_hides_no_allowed_category(f: &Fixture) {
    let waiting = |category: &str| run("q", category, at(0)).with_not_before(at(10));
    for _ in 0..5 {
        f.submit(&vec![waiting("slow"); 5_000], at(0)).await;
    }
    let fast = run("q", "fast", at(0)).with_not_before(at(20));
    let id = f.submit(&[fast], at(0)).await[0];
    let request = ClaimRequest {
        categories: Categories::Only(vec!["fast".to_owned()]),
        ..claim_of(5, at(60))
    };
    let claimed = f.claim(&request).await;
    assert_eq!(claimed.iter().map(|run| run.id).collect::<Vec<_>>(), [id]);
}

// RUN-7
pub async fn a_claim_raises_the_epoch_and_sets_the_lease(f: &Fixture) {
    let id = f.submit(&[run("q", "slow", at(0))], at(0)).await[0];
    let claimed = f.claim_one(at(1)).await;
    assert_eq!((claimed.id, claimed.category.as_str()), (id, "slow"));
    assert_eq!((claimed.epoch, claimed.attempt), (Epoch(1), AttemptNumber(1)));
    let stored = f.run(id).await;
    assert_eq!(stored.status, RunStatus::Processing);
    assert_eq!(stored.lease_owner, Some(WorkerId("w1".to_owned())));
    assert_eq!((stored.lease_epoch, stored.lease_until), (Epoch(1), Some(at(61))));

    f.end(&claimed, at(2), retry(at(2), Duration::from_secs(1), true)).await;
    let again = f.claim_one(at(9)).await;
    assert_eq!((again.epoch, again.attempt), (Epoch(2), AttemptNumber(2)));
}

// RUN-3
pub async fn starting_clears_the_next_retry_and_keeps_the_count(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let claimed = f.claim_one(at(1)).await;
    f.end(&claimed, at(2), retry(at(2), Duration::from_secs(60), true)).await;
    let again = f.claim_one(at(100)).await;
    assert_eq!(again.history.counted, 1);
    assert_eq!(again.history.first_attempt_at, Some(at(1)));
    let stored = f.run(id).await;
    assert_eq!((stored.next_retry_at, stored.retry_count), (None, 1));
}

pub async fn claims_at_once_never_share_a_run(f: &Fixture) {
    let new: Vec<_> = (0..200).map(|n| run("q", ["a", "b"][n % 2], at(n as i64))).collect();
    f.submit(&new, at(300)).await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let store = f.store.clone();
        tasks.spawn(async move {
            let owner = WorkerId(format!("w{worker}"));
            let mut mine = Vec::new();
            // Enough rounds for any one worker to take everything.
            for _ in 0..40 {
                let request = ClaimRequest { owner: owner.clone(), ..claim_of(7, at(400)) };
                let claimed = store.claim_runs(&request).await.expect("claimed");
                assert!(claimed.len() <= 7);
                mine.extend(claimed.into_iter().map(|run| run.id));
            }
            mine
        });
    }
    let taken: Vec<RunId> = tasks.join_all().await.into_iter().flatten().collect();
    let distinct: HashSet<RunId> = taken.iter().copied().collect();
    assert_eq!((taken.len(), distinct.len()), (200, 200));
}

pub async fn names_are_data(f: &Fixture) {
    let odd = ["%", "_", "'; DROP TABLE runs; --", "\"", "é", "e\u{301}", "../..", "a\nb", "null"];
    for (n, name) in odd.iter().enumerate() {
        let submitted: Timestamp = at(n as i64);
        f.submit(&[run(name, name, submitted)], submitted).await;
    }
    for name in odd {
        let request = ClaimRequest {
            queue: name.to_owned(),
            categories: Categories::Only(vec![name.to_owned()]),
            ..claim_of(10, at(60))
        };
        let claimed = f.claim(&request).await;
        assert_eq!(claimed.len(), 1, "queue and category {name:?}");
        assert_eq!(claimed[0].category, name);
    }
}

// RUN-7
pub async fn a_claim_of_named_categories_sets_the_lease_and_its_time(f: &Fixture) {
    f.submit(&[run("q", "a", at(0)), run("q", "b", at(1))], at(1)).await;
    let owner = WorkerId("w2".to_owned());
    let categories = Categories::Only(vec!["b".to_owned()]);
    let request = ClaimRequest { categories, owner, lease_until: at(70), ..claim_of(1, at(7)) };
    let claimed = f.claim(&request).await.pop().expect("a run to claim");
    assert_eq!(claimed.category, "b");
    let held = f.store.expired_leases(Leased::Run, at(70), None, 0, 10).await.expect("read");
    let lease = LeaseRef { id: claimed.id.0, epoch: claimed.epoch };
    let (owner, claimed_at) = (request.owner, Some(at(7)));
    assert_eq!(held, [ExpiredLease { lease, owner, until: at(70), claimed_at }]);
}
