//! Claiming, holding and releasing partitions.

use std::collections::HashSet;

use redrive_core::{AttemptNumber, Epoch, PartitionKey, PartitionState};

use super::{
    Fixture,
    partition_samples::{
        BACKFILL, FRESH, REPROCESS, accepted, claim_of, day, done, key, later, rejected, verdict,
    },
    samples::at,
};
use redrive_store::{
    Backlog, Lane, LeaseRef, LeaseRelease, Leased, PartitionAction, PartitionClaim, WorkKind,
    WorkerId, Written,
};

fn release_leases(lease: LeaseRef) -> LeaseRelease {
    LeaseRelease { lease, owner: WorkerId("w1".to_owned()), why: "shutdown".to_owned() }
}

// PAR-2, PAR-10
pub async fn a_claimed_partition_is_held_for_its_run(f: &Fixture) {
    f.ask_for(&[day(1)], at(0)).await;
    let claimed = f.take(at(5)).await;
    let stored = f.partition(&day(1)).await;
    let work = stored.work.clone().expect("work");
    assert_eq!((claimed.key, claimed.id), (day(1), stored.id));
    assert_eq!((claimed.attempt, claimed.lease.epoch), (AttemptNumber(1), Epoch(1)));
    assert_eq!(claimed.lease, LeaseRef { id: work.id, epoch: work.lease_epoch });
    assert_eq!((claimed.request.kind, claimed.request.lane), (WorkKind::First, Lane::Fresh));
    assert_eq!(claimed.request.requested_by, "ada");
    assert_eq!(work.run_id.as_ref(), Some(&claimed.run_id));
    assert_eq!(
        (work.lease_owner, work.lease_until),
        (Some(WorkerId("w1".to_owned())), Some(at(65)))
    );
    assert_eq!(stored.state(), PartitionState::Pending, "a claim is no verdict");
    assert_eq!(stored.attempt_count, 0);
}

// PAR-10
pub async fn a_partition_has_one_live_attempt(f: &Fixture) {
    f.partition_in(PartitionState::Success, &day(1)).await;
    f.ask_for(&[day(2)], at(20)).await;
    assert_eq!(f.change_one(REPROCESS, &day(1), at(20)).await, done(PartitionState::Success));
    let held = f.claim_partitions(&claim_of(10, 5, at(21))).await;
    assert_eq!(held.len(), 2);
    assert_eq!(
        f.claim_partitions(&claim_of(10, 5, at(9_999))).await,
        [],
        "leases are not judged here"
    );
}

// PAR-10
pub async fn claims_of_partitions_at_once_never_share_one(f: &Fixture) {
    let keys: Vec<PartitionKey> = (0..200).map(|n| key(&n.to_string(), "2026-03-01")).collect();
    f.ask_for(&keys, at(0)).await;
    let claims = (0..8).map(|worker| {
        let store = f.store.clone();
        tokio::spawn(async move {
            let mut mine = Vec::new();
            for round in 0..60 {
                let now = at(i64::from(worker) * 1_000 + round);
                let claim =
                    PartitionClaim { owner: WorkerId(format!("w{worker}")), ..claim_of(7, 3, now) };
                mine.extend(store.claim_partitions(&claim).await.expect("claimed"));
            }
            mine
        })
    });
    let mut taken = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        taken.extend(claim.await.expect("claimed"));
    }
    let distinct: HashSet<&PartitionKey> = taken.iter().map(|claimed| &claimed.key).collect();
    assert_eq!((taken.len(), distinct.len()), (200, 200));
    assert!(taken.iter().all(|claimed| claimed.lease.epoch == Epoch(1)));
    let runs: HashSet<_> = taken.iter().map(|claimed| &claimed.run_id).collect();
    assert_eq!(runs.len(), 200, "each has a run of its own");
}

// PAR-10
pub async fn lanes_share_a_claim_by_weight_and_what_one_leaves_the_other_gets(f: &Fixture) {
    for (fresh, backfill, limit, share, expected) in [
        (20, 20, 10, 3, (7, 3)),
        (2, 20, 10, 3, (2, 8)),
        (20, 1, 10, 3, (9, 1)),
        (20, 0, 10, 3, (10, 0)),
        (0, 20, 10, 0, (0, 10)),
        (20, 20, 10, 0, (10, 0)),
        (20, 20, 10, 10, (0, 10)),
        (20, 20, 10, 99, (0, 10)),
        (3, 2, 10, 5, (3, 2)),
        (0, 0, 10, 5, (0, 0)),
        (20, 20, 1, 1, (0, 1)),
    ] {
        let what = format!("{fresh} fresh, {backfill} backfill, {limit} with {share}");
        let keys = |lane: &str, count| -> Vec<PartitionKey> {
            (0..count).map(|n| key(&format!("{what} {lane} {n}"), "2026-03-01")).collect()
        };
        f.change_all(FRESH, &keys("fresh", fresh), at(0)).await;
        f.change_all(BACKFILL, &keys("backfill", backfill), at(0)).await;
        let claimed = f.claim_partitions(&claim_of(limit, share, at(1))).await;
        let fresh = claimed.iter().filter(|one| one.request.lane == Lane::Fresh).count();
        assert_eq!((fresh, claimed.len() - fresh), expected, "{what}");
        // Everything else of the case goes out of the way of the next.
        f.claim_partitions(&claim_of(100, 50, at(2))).await;
    }
}

// PAR-10
pub async fn the_oldest_request_of_a_lane_comes_first(f: &Fixture) {
    f.change_all(FRESH, &[day(3)], at(30)).await;
    f.change_all(FRESH, &[day(1)], at(10)).await;
    f.change_all(BACKFILL, &[day(9)], at(1)).await;
    f.change_all(FRESH, &[day(2), day(4)], at(20)).await;
    let claimed = f.claim_partitions(&claim_of(3, 0, at(40))).await;
    let keys: Vec<_> = claimed.into_iter().map(|claimed| claimed.key).collect();
    assert_eq!(keys, [day(1), day(2), day(4)], "ties in the order they were asked for");
    let rest = f.claim_partitions(&claim_of(3, 1, at(41))).await;
    let keys: Vec<_> = rest.into_iter().map(|claimed| claimed.key).collect();
    assert_eq!(keys, [day(9), day(3)], "what was asked for first, comes first");
}

// PAR-2, OPS-7
pub async fn a_claim_leaves_other_sources_alone(f: &Fixture) {
    f.ask_for(&[day(1)], at(0)).await;
    for source in ["ad", "ads ", "ADS", "%", "_ds", "ads%", ""] {
        let claim = PartitionClaim { source: source.to_owned(), ..claim_of(5, 2, at(1)) };
        assert_eq!(f.claim_partitions(&claim).await, [], "{source:?}");
    }
    assert_eq!(f.take(at(2)).await.key, day(1));
    let nothing = PartitionClaim { run_ids: Vec::new(), ..claim_of(1, 0, at(1)) };
    assert_eq!(f.claim_partitions(&nothing).await, []);
}

// PAR-9
pub async fn a_paused_partition_is_not_claimed(f: &Fixture) {
    f.ask_for(&[day(1), day(2)], at(0)).await;
    assert_eq!(
        f.change_one(PartitionAction::Pause, &day(1), at(1)).await,
        done(PartitionState::Pending)
    );
    let claimed = f.claim_partitions(&claim_of(5, 2, at(2))).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].key, day(2));
    assert_eq!(
        f.change_one(PartitionAction::Resume, &day(1), at(3)).await,
        done(PartitionState::Pending)
    );
    assert_eq!(f.take(at(4)).await.key, day(1));
}

// PAR-9, PAR-10
pub async fn pausing_what_is_held_lets_it_end_and_holds_back_what_comes(f: &Fixture) {
    f.ask_for(&[day(1)], at(0)).await;
    let held = f.take(at(1)).await;
    f.change_one(PartitionAction::Pause, &day(1), at(2)).await;
    let renewed = f.store.renew_leases(Leased::Partition, &[held.lease], at(500)).await;
    assert_eq!(renewed.expect("answered"), [Written::Applied]);
    f.judge(&held, at(3), rejected("no rows")).await;

    let failed = f.partition(&day(1)).await;
    let work = failed.work.clone().expect("the pause is kept");
    assert_eq!((failed.state(), work.request), (PartitionState::Failed, None));
    assert_eq!((work.lease_owner, work.lease_epoch), (None, Epoch(0)), "a row of its own");
    assert_eq!(failed.paused().map(|by| by.actor.as_str()), Some("ada"));
    assert_ne!(work.id, held.lease.id, "so that no old lease can match");

    let retry = super::partition_samples::RETRY;
    assert_eq!(f.change_one(retry, &day(1), at(4)).await, done(PartitionState::Failed));
    assert_eq!(f.claim_partitions(&claim_of(5, 2, at(5))).await, [], "still paused");
    f.change_one(PartitionAction::Resume, &day(1), at(6)).await;
    assert_eq!(f.take(at(7)).await.request.kind, WorkKind::Retry);
}

// PAR-10
pub async fn a_renewed_lease_of_a_partition_ends_later_and_a_lost_one_does_not(f: &Fixture) {
    f.ask_for(&[day(1), day(2)], at(0)).await;
    let held = f.claim_partitions(&claim_of(2, 0, at(10))).await;
    f.judge(&held[1], at(11), accepted(1)).await;
    let leases = [later(held[0].lease), held[1].lease, held[0].lease];
    let renewed = f.store.renew_leases(Leased::Partition, &leases, at(500)).await;
    assert_eq!(renewed.expect("answered"), [Written::Stale, Written::Stale, Written::Applied]);
    let ended =
        f.store.expired_leases(Leased::Partition, at(499), None, 0, 10).await.expect("read");
    assert_eq!(ended, []);
    let ended =
        f.store.expired_leases(Leased::Partition, at(500), None, 0, 10).await.expect("read");
    assert_eq!((ended.len(), ended[0].lease, ended[0].until), (1, held[0].lease, at(500)));
    assert_eq!(ended[0].owner, WorkerId("w1".to_owned()));
    f.owners_find_their_leases(Leased::Partition).await;
    for (now, next) in [(499, Some(at(500))), (500, None)] {
        let found = f.store.next_lease_end(Leased::Partition, at(now)).await.expect("read");
        assert_eq!(found, next, "after {now}");
    }
}

// PAR-4, PAR-10
pub async fn what_a_lost_worker_held_is_found_page_by_page_and_read_back(f: &Fixture) {
    let keys: Vec<PartitionKey> = (1..=5).map(day).collect();
    f.ask_for(&keys, at(0)).await;
    let held = f.claim_partitions(&claim_of(5, 0, at(10))).await;
    f.judge(&held[2], at(11), accepted(1)).await;
    let (mut after, mut found) = (0, Vec::new());
    loop {
        let page =
            f.store.expired_leases(Leased::Partition, at(70), None, after, 2).await.expect("read");
        let Some(last) = page.last() else { break };
        after = last.lease.id;
        found.extend(page.into_iter().map(|expired| expired.lease));
    }
    assert_eq!(found.len(), 4);
    let asked = [&found[..], &[held[2].lease, later(found[0])]].concat();
    let mut read = f.store.claimed_partitions(&asked).await.expect("read");
    read.sort_by_key(|claimed| claimed.lease.id);
    let expected: Vec<_> = [0, 1, 3, 4].map(|n: usize| held[n].clone()).into();
    assert_eq!(read, expected, "what is gone or held by another is left out");
}

// PAR-6, OPS-6
pub async fn a_released_partition_is_claimable_at_once_and_uncounted(f: &Fixture) {
    f.ask_for(&[day(1)], at(0)).await;
    let first = f.take(at(1)).await;
    let back = release_leases(first.lease);
    let written = f
        .store
        .release_leases(Leased::Partition, &[back.clone(), back], at(2))
        .await
        .expect("answered");
    assert_eq!(written, [Written::Applied, Written::Stale]);
    let stored = f.partition(&day(1)).await;
    let work = stored.work.clone().expect("still asked for");
    assert_eq!((stored.attempt_count, work.run_id, work.lease_owner), (0, None, None));
    assert_eq!(f.partition_attempts(&day(1)).await, []);
    let told = f.told_of(&day(1)).await.pop().expect("told");
    assert_eq!((told.action.as_str(), told.at), ("partition.handback", at(2)));
    for part in [r#""why":"shutdown""#, r#""epoch":1"#, first.run_id.as_str()] {
        assert!(told.details.contains(part), "{}", told.details);
    }

    let second = f.take(at(3)).await;
    assert_eq!((second.lease.id, second.lease.epoch), (first.lease.id, Epoch(2)));
    assert_ne!(second.run_id, first.run_id, "a run is begun once");
    assert_eq!((second.attempt, second.request), (AttemptNumber(1), first.request));
}

// PAR-10, OPS-6
pub async fn a_lost_partition_cannot_be_released(f: &Fixture) {
    f.ask_for(&[day(1)], at(0)).await;
    let held = f.take(at(1)).await;
    f.judge(&held, at(2), accepted(1)).await;
    let before = f.partition(&day(1)).await;
    let told = f.told_of(&day(1)).await;
    for lease in [held.lease, later(held.lease), LeaseRef { id: 9_999, epoch: Epoch(1) }] {
        let back = f.store.release_leases(Leased::Partition, &[release_leases(lease)], at(3)).await;
        assert_eq!(back.expect("answered"), [Written::Stale]);
    }
    assert_eq!(f.partition(&day(1)).await, before);
    assert_eq!(f.told_of(&day(1)).await, told);
}

// OPS-7
pub async fn the_backlog_of_a_source_is_what_it_has_to_do(f: &Fixture) {
    let look = async |source: &str| f.store.partition_backlog(source).await.expect("read");
    let nothing = Backlog::default();
    assert_eq!(look("ads").await, nothing);
    f.change_all(BACKFILL, &[day(1)], at(0)).await;
    assert_eq!(look("ads").await, Backlog { ready: true, ..nothing });
    assert_eq!(look("ad").await, nothing);
    let held = f.take(at(1)).await;
    assert_eq!(look("ads").await, Backlog { held: true, ..nothing });
    f.judge(&held, at(2), rejected("no rows")).await;
    assert_eq!(look("ads").await, nothing, "the daemon is nobody's work");
    f.ask_for(&[day(2)], at(3)).await;
    f.change_one(PartitionAction::Pause, &day(2), at(4)).await;
    assert_eq!(look("ads").await, nothing, "what is paused is nobody's work");
}

/// Who listens has heard of a change when the call that made it returns.
pub async fn whatever_partition_may_be_claimed_wakes_who_listens(f: &Fixture) {
    let mut wakes = f.store.wakes();
    let mut woken = |what: &str| {
        assert!(wakes.has_changed().expect("the store is there"), "{what}");
        wakes.mark_unchanged();
    };
    f.ask_for(&[day(1)], at(0)).await;
    woken("a backfill");
    let held = f.take(at(1)).await;
    let back =
        f.store.release_leases(Leased::Partition, &[release_leases(held.lease)], at(2)).await;
    assert_eq!(back.expect("answered"), [Written::Applied]);
    woken("a partition that was released");
    let held = f.take(at(3)).await;
    let finish = verdict(&held, at(4), accepted(1));
    assert_eq!(f.store.finish_partitions(&[finish]).await.expect("answered"), [Written::Applied]);
    f.change_one(REPROCESS, &day(1), at(5)).await;
    woken("a reprocess");
    f.change_one(PartitionAction::Pause, &day(1), at(6)).await;
    f.change_one(PartitionAction::Resume, &day(1), at(7)).await;
    woken("a partition that was resumed");
}
