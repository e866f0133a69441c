//! Leases: renewing, losing and releasing them.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::{AttemptNumber, Epoch, RunStatus};

use super::{
    Fixture,
    items::group,
    partition_samples::{self, day},
    pipeline_samples::{lines, new_run, sample_lease},
    samples::{at, before, claim_of, passed, retry, run},
};
use redrive_store::{
    ClaimRequest, ClaimedGroup, ClaimedRun, GroupClaim, JournalFilter, LeaseRef, LeaseRelease,
    Leased, UnitKind, UnitRow, WorkerId, Written,
};

fn lease(run: &ClaimedRun) -> LeaseRef {
    LeaseRef { id: run.id.0, epoch: run.epoch }
}

fn release_leases(lease: LeaseRef) -> LeaseRelease {
    LeaseRelease { lease, owner: WorkerId("w1".to_owned()), why: "shutdown".to_owned() }
}

// RUN-7
pub async fn a_renewed_lease_ends_later(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let claimed = f.claim_one(at(1)).await;
    let renewed = f.store.renew_leases(Leased::Run, &[lease(&claimed)], at(500)).await;
    assert_eq!(renewed.expect("answered"), [Written::Applied]);
    assert_eq!(f.run(id).await.lease_until, Some(at(500)));
    let ended = f.store.expired_leases(Leased::Run, at(499), None, 0, 10).await.expect("read");
    assert_eq!(ended, []);
}

// RUN-7
pub async fn an_ended_lease_says_when_its_unit_was_claimed(f: &Fixture) {
    f.submit(&[run("q", "", at(0))], at(0)).await;
    let claimed = f.claim_one(at(7)).await;
    let renewed = f.store.renew_leases(Leased::Run, &[lease(&claimed)], at(500)).await;
    assert_eq!(renewed.expect("answered"), [Written::Applied]);
    let ended = f.store.expired_leases(Leased::Run, at(500), None, 0, 10).await.expect("read");
    assert_eq!(ended[0].claimed_at, Some(at(7)), "and not when it was last renewed");
}

// RUN-7
pub async fn a_renewal_never_brings_the_end_of_a_lease_nearer(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let claimed = f.claim_one(at(1)).await;
    for (until, end) in [(500, 500), (90, 500), (501, 501)] {
        let renewed = f.store.renew_leases(Leased::Run, &[lease(&claimed)], at(until)).await;
        assert_eq!(renewed.expect("answered"), [Written::Applied], "it is still held");
        assert_eq!(f.run(id).await.lease_until, Some(at(end)));
    }
}

// RUN-7
pub async fn a_lost_lease_cannot_be_renewed(f: &Fixture) {
    f.submit(&[run("q", "", at(0)), run("q", "", at(1))], at(1)).await;
    let claimed = f.claim(&claim_of(2, at(2))).await;
    f.end(&claimed[1], at(3), passed()).await;
    let older = LeaseRef { epoch: before(claimed[0].epoch), ..lease(&claimed[0]) };
    let leases = [older, lease(&claimed[1]), lease(&claimed[0])];
    let renewed = f.store.renew_leases(Leased::Run, &leases, at(500)).await.expect("answered");
    assert_eq!(renewed, [Written::Stale, Written::Stale, Written::Applied]);
}

// RUN-7
pub async fn ended_leases_are_found_page_by_page(f: &Fixture) {
    let new: Vec<_> = (0..5).map(|n| run("q", "", at(n))).collect();
    let ids = f.submit(&new, at(5)).await;
    let claimed = f.claim(&claim_of(5, at(10))).await;
    f.store
        .renew_leases(Leased::Run, &[lease(&claimed[2])], at(500))
        .await
        .map(drop)
        .expect("answered");
    let (mut after, mut found) = (0, Vec::new());
    loop {
        let page = f.store.expired_leases(Leased::Run, at(70), None, after, 2).await.expect("read");
        let Some(last) = page.last() else { break };
        after = last.lease.id;
        found.extend(page);
    }
    let found_ids: Vec<i64> = found.iter().map(|expired| expired.lease.id).collect();
    assert_eq!(found_ids, [ids[0].0, ids[1].0, ids[3].0, ids[4].0], "one was renewed");
    assert!(found.iter().all(|e| e.owner.0 == "w1" && e.until == at(70)));
    assert!(found.iter().all(|e| e.lease.epoch == Epoch(1)));
}

impl Fixture {
    /// A worker that lost the answer to a claim asks what it holds, whether that has ended or not.
    pub(super) async fn owners_find_their_leases(&self, kind: Leased) {
        let held_by = async |owner: Option<&WorkerId>| {
            let held = self.store.expired_leases(kind, Timestamp::MAX, owner, 0, 10);
            held.await.expect("read")
        };
        let all = held_by(None).await;
        assert!(!all.is_empty(), "something is held");
        for held in &all {
            let theirs = all.iter().filter(|other| other.owner == held.owner).cloned();
            assert_eq!(held_by(Some(&held.owner)).await, theirs.collect::<Vec<_>>());
        }
        assert_eq!(held_by(Some(&WorkerId("nobody".to_owned()))).await, []);
    }
}

// RUN-7
pub async fn a_worker_finds_its_own_leases(f: &Fixture) {
    f.submit(&[run("q", "", at(0)), run("q", "", at(1)), run("q", "", at(2))], at(5)).await;
    f.claim(&claim_of(2, at(10))).await;
    let other = WorkerId("w2".to_owned());
    f.claim(&ClaimRequest { owner: other, ..claim_of(1, at(11)) }).await;
    f.owners_find_their_leases(Leased::Run).await;
}

// RUN-7
pub async fn the_next_lease_end_is_the_earliest_that_is_still_to_come(f: &Fixture) {
    let next = async |now| f.store.next_lease_end(Leased::Run, at(now)).await.expect("read");
    f.submit(&[run("q", "", at(0)), run("q", "", at(1)), run("q", "", at(2))], at(2)).await;
    assert_eq!(next(0).await, None, "nothing is held");
    let claimed = f.claim(&claim_of(3, at(10))).await;
    f.store
        .renew_leases(Leased::Run, &[lease(&claimed[1])], at(500))
        .await
        .map(drop)
        .expect("answered");
    assert_eq!(next(10).await, Some(at(70)));
    assert_eq!(next(70).await, Some(at(500)), "the others have ended");
    f.end(&claimed[1], at(71), passed()).await;
    assert_eq!(next(70).await, None);
}

// OPS-6
pub async fn a_released_run_is_claimable_at_once_and_uncounted(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let first = f.claim_one(at(1)).await;
    f.end(&first, at(2), retry(at(2), Duration::from_secs(1), true)).await;
    let second = f.claim_one(at(5)).await;
    let back = f.store.release_leases(Leased::Run, &[release_leases(lease(&second))], at(6)).await;
    assert_eq!(back.expect("answered"), [Written::Applied]);

    let stored = f.run(id).await;
    assert_eq!((stored.status, stored.retry_count), (RunStatus::Discovered, 1));
    assert_eq!((stored.attempts, stored.lease_owner), (1, None));
    let unit = UnitRow::new(UnitKind::Run, id.0);
    let attempts = f.store.attempts_of(&unit, AttemptNumber(0), 10).await.expect("read");
    assert_eq!(attempts.len(), 1, "a hand-back is no attempt");
    let filter = JournalFilter { unit: Some(format!("run:{id}")), action: None };
    let journal = f.store.journal_page(&filter, 0, 10).await.expect("read");
    assert_eq!(
        journal.iter().map(|r| r.entry.action.as_str()).collect::<Vec<_>>(),
        ["run.handback"]
    );

    let third = f.claim_one(at(6)).await;
    assert_eq!((third.attempt, third.history.counted), (AttemptNumber(2), 1));
    assert_eq!(third.epoch, Epoch(3));
}

// OPS-6, RUN-7
pub async fn a_lost_lease_cannot_be_released(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let claimed = f.claim_one(at(1)).await;
    f.end(&claimed, at(2), passed()).await;
    let back = f.store.release_leases(Leased::Run, &[release_leases(lease(&claimed))], at(3)).await;
    assert_eq!(back.expect("answered"), [Written::Stale]);
    assert_eq!(f.run(id).await.status, RunStatus::Passed);
    let journal = f.store.journal_page(&JournalFilter::default(), 0, 10).await.expect("read");
    assert_eq!(journal, []);
}

impl Fixture {
    /// Two leases of every kind: the id of the second differs from its epoch.
    async fn leases_of_every_kind(&self) -> [(Leased, LeaseRef); 5] {
        self.submit(&[run("q", "", at(0)), run("q", "", at(1))], at(1)).await;
        let runs = self.claim(&claim_of(2, at(2))).await;
        self.ask_for(&[day(1), day(2)], at(0)).await;
        let partitions = self.claim_partitions(&partition_samples::claim_of(2, 0, at(2))).await;
        let mut groups = Vec::new();
        for name in ["g", "h"] {
            let owner = WorkerId("w1".to_owned());
            let claim = GroupClaim { group: group(name), owner, now: at(2), lease_until: at(62) };
            match self.store.claim_group(&claim).await.expect("answered") {
                ClaimedGroup::Held(lease) => groups.push(lease),
                busy @ ClaimedGroup::Busy { .. } => panic!("not held: {busy:?}"),
            }
        }
        let feeds = [self.reading(&new_run()).await, self.reading(&new_run()).await];
        self.feed(feeds[1], &lines(1..=2), false).await;
        let samples = self.samples_at(0, 2, at(2)).await;
        [
            (Leased::Run, lease(&runs[1])),
            (Leased::Partition, partitions[1].lease),
            (Leased::Group, groups[1]),
            (Leased::Feed, feeds[1]),
            (Leased::Sample, sample_lease(&samples[1])),
        ]
    }
}

// RUN-7
pub async fn a_lease_of_every_kind_is_known_by_its_id_and_its_epoch(f: &Fixture) {
    for (kind, lease) in f.leases_of_every_kind().await {
        assert_ne!(lease.id, lease.epoch.0, "{kind:?}");
        let renewed = f.store.renew_leases(kind, &[lease], at(500)).await.expect("answered");
        assert_eq!(renewed, [Written::Applied], "{kind:?}");
        let held = f.store.expired_leases(kind, at(500), None, 0, 10).await.expect("read");
        let ends: Vec<_> = held.iter().map(|held| (held.lease, held.until == at(500))).collect();
        assert!(ends.len() == 2 && ends.contains(&(lease, true)), "{kind:?}: {held:?}");
        assert_eq!(ends.iter().filter(|(_, later)| *later).count(), 1, "{kind:?}: {held:?}");
        let released = f.store.release_leases(kind, &[release_leases(lease)], at(3)).await;
        assert_eq!(released.expect("answered"), [Written::Applied], "{kind:?}");
        let held = f.store.expired_leases(kind, at(500), None, 0, 10).await.expect("read");
        assert!(held.len() == 1 && held[0].lease != lease, "{kind:?}: {held:?}");
    }
}
