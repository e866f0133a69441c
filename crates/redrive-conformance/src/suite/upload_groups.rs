//! Leases of upload groups.

use jiff::Timestamp;
use redrive_core::Epoch;
use serde_json::{Value, json};

use super::{Fixture, items::group, samples::at};
use redrive_store::{
    ClaimedGroup, ExpiredLease, GroupClaim, JournalFilter, LeaseRef, LeaseRelease, Leased,
    WorkerId, Written,
};

fn claim(name: &str, owner: &str, now: Timestamp, lease_until: Timestamp) -> GroupClaim {
    GroupClaim { group: group(name), owner: WorkerId(owner.to_owned()), now, lease_until }
}

fn back(lease: LeaseRef, why: &str) -> LeaseRelease {
    LeaseRelease { lease, owner: WorkerId("w1".to_owned()), why: why.to_owned() }
}

impl Fixture {
    async fn claimed(&self, claim: &GroupClaim) -> ClaimedGroup {
        self.store.claim_group(claim).await.expect("answered")
    }

    #[track_caller]
    fn held(claimed: ClaimedGroup) -> LeaseRef {
        match claimed {
            ClaimedGroup::Held(lease) => lease,
            busy => panic!("not held: {busy:?}"),
        }
    }
}

// UPL-7
pub async fn a_held_group_is_refused_until_its_lease_ends(f: &Fixture) {
    let first = Fixture::held(f.claimed(&claim("g", "w1", at(0), at(30))).await);
    assert_eq!(first.epoch, Epoch(1));
    let busy = ClaimedGroup::Busy { owner: WorkerId("w1".to_owned()), until: at(30) };
    assert_eq!(f.claimed(&claim("g", "w2", at(29), at(60))).await, busy);
    let other = Fixture::held(f.claimed(&claim("h", "w2", at(29), at(60))).await);
    assert_ne!(other.id, first.id, "groups are held apart");
    let second = Fixture::held(f.claimed(&claim("g", "w2", at(30), at(60))).await);
    assert_eq!((second.id, second.epoch), (first.id, Epoch(2)));
}

// UPL-7
pub async fn a_released_group_can_be_taken_at_once(f: &Fixture) {
    let lease = Fixture::held(f.claimed(&claim("g", "w1", at(0), at(30))).await);
    let written = f.store.release_leases(Leased::Group, &[back(lease, "done")], at(5)).await;
    assert_eq!(written.expect("answered"), [Written::Applied]);
    let again = f.store.release_leases(Leased::Group, &[back(lease, "done")], at(6)).await;
    assert_eq!(again.expect("answered"), [Written::Stale]);
    let filter = JournalFilter { action: Some("upload.handback".to_owned()), unit: None };
    let journal = f.store.journal_page(&filter, 0, 10).await.expect("read");
    assert_eq!(journal.len(), 1);
    let entry = &journal[0].entry;
    assert_eq!((&*entry.actor, entry.at, &entry.unit), ("w1", at(5), &None));
    let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    assert_eq!(read(&entry.details), json!({ "why": "done", "epoch": 1 }));
    let named = entry.filter.as_deref().map(read);
    assert_eq!(named, Some(json!({ "upload": "tiles", "group": "g" })));
    assert_eq!(Fixture::held(f.claimed(&claim("g", "w2", at(5), at(30))).await).epoch, Epoch(2));
}

// UPL-7
pub async fn a_group_that_was_taken_over_is_lost_to_who_held_it(f: &Fixture) {
    let lost = Fixture::held(f.claimed(&claim("g", "w1", at(0), at(30))).await);
    let taken = Fixture::held(f.claimed(&claim("g", "w2", at(31), at(60))).await);
    let renewed = f.store.renew_leases(Leased::Group, &[lost, taken], at(90)).await;
    assert_eq!(renewed.expect("answered"), [Written::Stale, Written::Applied]);
    let written = f.store.release_leases(Leased::Group, &[back(lost, "late")], at(40)).await;
    assert_eq!(written.expect("answered"), [Written::Stale]);
    let busy = ClaimedGroup::Busy { owner: WorkerId("w2".to_owned()), until: at(90) };
    assert_eq!(f.claimed(&claim("g", "w3", at(89), at(99))).await, busy);
}

// UPL-7
pub async fn claims_of_one_group_at_once_are_granted_to_one(f: &Fixture) {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..16 {
        let (store, claim) = (f.store.clone(), claim("g", &format!("w{n}"), at(0), at(30)));
        tasks.spawn(async move { store.claim_group(&claim).await.expect("answered") });
    }
    let claimed = tasks.join_all().await;
    let held = claimed.iter().filter(|claimed| matches!(claimed, ClaimedGroup::Held(_))).count();
    assert_eq!(held, 1, "{claimed:?}");
}

pub async fn ended_leases_of_groups_are_found(f: &Fixture) {
    let ended = Fixture::held(f.claimed(&claim("g", "w1", at(0), at(30))).await);
    let live = Fixture::held(f.claimed(&claim("h", "w2", at(0), at(60))).await);
    let found = f.store.expired_leases(Leased::Group, at(30), None, 0, 10).await.expect("read");
    let owner = WorkerId("w1".to_owned());
    assert_eq!(found, [ExpiredLease { lease: ended, owner, until: at(30), claimed_at: None }]);
    let next = f.store.next_lease_end(Leased::Group, at(30)).await.expect("read");
    assert_eq!(next, Some(at(60)));
    let after =
        f.store.expired_leases(Leased::Group, at(99), None, ended.id, 10).await.expect("read");
    assert_eq!(after.iter().map(|lease| lease.lease).collect::<Vec<_>>(), [live]);
    f.owners_find_their_leases(Leased::Group).await;
}
