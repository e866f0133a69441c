//! Gates before partitions and samples.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use redrive_core::{Failure, GateSettings, GateStatus, ItemEvent, ItemId, SampleId};
use redrive_store::{
    BackfillShare, ClaimedGroup, ClaimedPartition, ClaimedSample, DeclaredGate, GateOrder,
    GatePlace, GateRule, GateRules, GroupClaim, ItemAdmission, ItemAttempt, ItemGroup, ItemMove,
    ItemPass, Lane, LeaseRef, LeaseRelease, Leased, MAX_KEYED, NewItem, NewSample, PartitionClaim,
    PartitionVerdict, PassedGates, PermitHolder, SampleClaim, SampleCompletion, UnitKind, WorkerId,
    Written,
};

use super::{
    Fixture,
    items::item,
    partition_samples::{BACKFILL, accepted, claim_of, key, verdict},
    pipeline_samples::{answered, claim_at, ended, new_run, retried, sample_lease},
    samples::{at, operator},
};

/// Long after the test.
const FOR_LONG: SignedDuration = SignedDuration::from_hours(24 * 365 * 100);

fn rules(is_keyed: bool, concurrency: Option<u32>) -> GateRules {
    let (base, cap) = (Duration::from_secs(10), Duration::from_secs(600));
    let settings = GateSettings::new(None, concurrency, None, base, cap).expect("valid");
    Arc::new([GateRule { name: "api".to_owned(), is_keyed, settings }])
}

fn partitions_behind(gates: &GateRules, limit: u32, now: Timestamp) -> PartitionClaim {
    let lease_until = now + FOR_LONG;
    PartitionClaim { gates: gates.clone(), lease_until, ..claim_of(limit, limit, now) }
}

fn limited(seconds: u64) -> PartitionVerdict {
    let failure = Failure::http(429, Some(Duration::from_secs(seconds)), "slow down");
    PartitionVerdict::Rejected { failure }
}

/// Samples whose data has a customer.
fn lines_of(customers: &[&str]) -> Vec<NewSample> {
    let sample = |(line, customer): (u64, &&str)| {
        let data = Ok(format!("{{\"customer\": \"{customer}\"}}"));
        NewSample { line, data, hash: None }
    };
    (1..).zip(customers).map(sample).collect()
}

fn samples_behind(gates: &GateRules, stage: u32, limit: u32, now: Timestamp) -> SampleClaim {
    let gate_key = gates[0].is_keyed.then(|| "/customer".to_owned());
    let lease_until = now + FOR_LONG;
    SampleClaim { gates: gates.clone(), gate_key, lease_until, ..claim_at(stage, limit, now) }
}

fn ids(claimed: &[ClaimedSample]) -> Vec<SampleId> {
    claimed.iter().map(|sample| sample.id).collect()
}

fn customers(claimed: &[ClaimedPartition]) -> Vec<&str> {
    claimed.iter().map(|partition| partition.key.customer_id()).collect()
}

impl Fixture {
    async fn declare_for(&self, gates: &GateRules, kind: UnitKind, place: &str) {
        let declared = DeclaredGate {
            name: "api".to_owned(),
            per: gates[0].is_keyed.then(|| "customer".to_owned()),
            key: (kind == UnitKind::Sample).then(|| "/customer".to_owned()),
            limits: gates[0].settings.limits_in_words(),
            places: vec![GatePlace { kind, place: place.to_owned() }],
        };
        self.store.declare_gates(&vec![declared].into(), at(0)).await.expect("declared");
    }

    async fn judge_behind(
        &self,
        gates: &GateRules,
        claimed: &ClaimedPartition,
        now: Timestamp,
        judged: PartitionVerdict,
    ) {
        let mut finish = verdict(claimed, now, judged);
        let key = claimed.key.customer_id().to_owned();
        finish.gates = Some(PassedGates { rules: gates.clone(), key });
        let written = self.store.finish_partitions(&[finish]).await.expect("answered");
        assert_eq!(written, [Written::Applied]);
    }

    async fn end_behind_gate(
        &self,
        gates: &GateRules,
        sample: &ClaimedSample,
        key: &str,
        now: Timestamp,
        completion: SampleCompletion,
    ) {
        let mut finish = ended(sample, 0, now, completion);
        finish.gates = Some(PassedGates { rules: gates.clone(), key: key.to_owned() });
        let written = self.store.finish_samples(&[finish]).await.expect("answered");
        assert!(written[0].is_applied(), "{written:?}");
    }

    async fn claim_group_until(&self, lease_until: Timestamp) -> LeaseRef {
        let (owner, now) = (WorkerId("w1".to_owned()), at(1));
        let claim = GroupClaim { group: group(), owner, now, lease_until };
        match self.store.claim_group(&claim).await.expect("answered") {
            ClaimedGroup::Held(lease) => lease,
            ClaimedGroup::Busy { owner, .. } => panic!("{owner} has the group"),
        }
    }

    async fn status_of(&self, key: &str) -> GateStatus {
        let row = self.store.gate_rows(&[("api", key)]).await.expect("read").pop();
        row.map_or(GateStatus::Open, |row| row.state.status)
    }
}

// GAT-1, GAT-2, GAT-3, GAT-4
pub async fn a_rate_limited_partition_closes_the_gate_for_its_customer(f: &Fixture) {
    let gates = rules(true, None);
    f.declare_for(&gates, UnitKind::Partition, "ads").await;
    let days = |customer: &str, days: u32| -> Vec<_> {
        (1..=days).map(|day| key(customer, &format!("2026-03-{day:02}"))).collect()
    };
    f.ask_for(&[days("acme", 4), days("bolt", 2)].concat(), at(1)).await;
    let held = f.claim_partitions(&partitions_behind(&gates, 2, at(2))).await;
    assert_eq!(customers(&held), ["acme"; 2]);
    assert!(!held[0].pass.has_permit, "an open gate without limits notes nothing");
    f.judge_behind(&gates, &held[0], at(3), limited(30)).await;
    assert_eq!(f.status_of("acme").await, GateStatus::Closed);
    assert_eq!(f.store.waiting_behind("api", "acme").await.expect("read"), 2);

    let others = f.claim_partitions(&partitions_behind(&gates, 9, at(4))).await;
    assert_eq!(customers(&others), ["bolt"; 2], "other customers go on");
    f.judge_behind(&gates, &held[1], at(5), accepted(1)).await;
    assert_eq!(f.status_of("acme").await, GateStatus::Closed, "it was started before");
    let probe = f.claim_partitions(&partitions_behind(&gates, 9, at(34))).await;
    assert_eq!(customers(&probe), ["acme"], "one probe");
    assert!(probe[0].pass.has_permit);
    let holder = PermitHolder { kind: UnitKind::Partition, lease: probe[0].lease };
    assert_eq!(f.store.gate_permits("api", "acme", 9).await.expect("read"), [holder]);
    assert_eq!(f.claim_partitions(&partitions_behind(&gates, 9, at(35))).await, []);
    f.judge_behind(&gates, &probe[0], at(36), accepted(1)).await;
    assert_eq!(f.status_of("acme").await, GateStatus::Ramping);
    assert_eq!(f.claim_partitions(&partitions_behind(&gates, 9, at(37))).await.len(), 1);
}

// GAT-5
pub async fn partitions_keep_to_a_concurrency_over_both_lanes(f: &Fixture) {
    let gates = rules(true, Some(2));
    f.declare_for(&gates, UnitKind::Partition, "ads").await;
    let day = |customer: &str, day: u32| key(customer, &format!("2026-03-{day:02}"));
    f.ask_for(&(1..=3).map(|n| day("acme", n)).collect::<Vec<_>>(), at(1)).await;
    let backfill: Vec<_> = (4..=6).flat_map(|n| [day("acme", n), day("bolt", n)]).collect();
    f.change_all(BACKFILL, &backfill, at(2)).await;
    let claimed = f.claim_partitions(&partitions_behind(&gates, 9, at(3))).await;
    let of = |customer: &str| customers(&claimed).iter().filter(|it| **it == customer).count();
    assert_eq!((of("acme"), of("bolt")), (2, 2));
    assert_eq!(f.claim_partitions(&partitions_behind(&gates, 9, at(3))).await, []);
}

// GAT-5, PAR-10
pub async fn lanes_share_what_a_gate_lets_through(f: &Fixture) {
    let (one, each) = (rules(false, Some(1)), rules(true, Some(1)));
    f.declare_for(&one, UnitKind::Partition, "ads").await;
    f.ask_for(&[key("acme", "2026-03-01"), key("bolt", "2026-03-02")], at(1)).await;
    f.change_all(BACKFILL, &[key("acme", "2026-03-03"), key("acme", "2026-03-04")], at(2)).await;
    let claim = async |gates: &GateRules, owed, now| {
        let backfill = BackfillShare { share: 0.3, owed };
        let claim = PartitionClaim { backfill, ..partitions_behind(gates, 8, now) };
        let claimed = f.claim_partitions(&claim).await;
        let mut lanes: Vec<Lane> = claimed.iter().map(|one| one.request.lane).collect();
        lanes.sort_unstable_by_key(|lane| lane.name());
        for one in &claimed {
            f.judge_behind(gates, one, now, accepted(1)).await;
        }
        lanes
    };
    assert_eq!(claim(&one, 0.0, at(3)).await, [Lane::Fresh], "the quota is that of one partition");
    assert_eq!(claim(&one, 0.8, at(4)).await, [Lane::Backfill]);
    f.ask_for(&[key("acme", "2026-03-05")], at(1)).await;
    let both = claim(&each, 0.8, at(6)).await;
    assert_eq!(both, [Lane::Backfill, Lane::Fresh], "fresh data takes all of no customer");
}

// GAT-1, GAT-3, GAT-4
pub async fn a_rate_limited_sample_closes_the_gate_for_the_key_in_its_data(f: &Fixture) {
    let gates = rules(true, None);
    f.declare_for(&gates, UnitKind::Sample, "p/clean").await;
    let feed = f.reading(&new_run()).await;
    f.feed(feed, &lines_of(&["acme", "acme", "bolt", "acme", "bolt"]), true).await;
    let first = f.samples(&samples_behind(&gates, 0, 1, at(2))).await;
    let wait = Duration::from_secs(30);
    f.end_behind_gate(&gates, &first[0], "acme", at(3), retried(at(3), wait, false)).await;
    assert_eq!(f.status_of("acme").await, GateStatus::Closed);
    let others = f.samples(&samples_behind(&gates, 0, 9, at(4))).await;
    assert_eq!(others.len(), 2, "the samples of bolt");
    assert_eq!(f.store.waiting_behind("api", "acme").await.expect("read"), 2);

    let probe = f.samples(&samples_behind(&gates, 0, 9, at(34))).await;
    assert_eq!(ids(&probe), ids(&first), "a due retry comes first, and is the probe");
    let holder = PermitHolder { kind: UnitKind::Sample, lease: sample_lease(&probe[0]) };
    assert_eq!(f.store.gate_permits("api", "acme", 9).await.expect("read"), [holder]);
    assert_eq!(f.samples(&samples_behind(&gates, 0, 9, at(34))).await, []);
    f.end_behind_gate(&gates, &probe[0], "acme", at(35), answered("{\"customer\": \"bolt\"}"))
        .await;
    assert_eq!(f.status_of("acme").await, GateStatus::Open, "one ran when it closed");
    assert_eq!(f.samples(&samples_behind(&gates, 0, 9, at(36))).await.len(), 2);
    // At the next stage the sample has the key of its new data.
    f.store
        .order_gate("api", "acme", &GateOrder::Close { until: None }, &operator(at(37)))
        .await
        .expect("closed");
    assert_eq!(ids(&f.samples(&samples_behind(&gates, 1, 9, at(38))).await), ids(&probe));
}

// GAT-3
pub async fn a_claim_keys_few_samples_and_the_next_ones_go_on(f: &Fixture) {
    let gates = rules(true, Some(2));
    f.declare_for(&gates, UnitKind::Sample, "p/clean").await;
    let (feed, waiting) = (f.reading(&new_run()).await, MAX_KEYED as usize + 1);
    let mut customers = vec!["acme"; waiting];
    customers.push("bolt");
    f.feed(feed, &lines_of(&customers), true).await;
    let mut wakes = f.store.wakes();
    wakes.mark_unchanged();
    let first = f.samples(&samples_behind(&gates, 0, 9, at(2))).await;
    assert_eq!(first.len(), 2, "two of acme");
    assert!(wakes.has_changed().expect("the store is there"), "there are more to key");
    let keyed = f.store.waiting_behind("api", "acme").await.expect("read");
    assert_eq!(keyed, u64::from(MAX_KEYED) - 2);
    let second = f.samples(&samples_behind(&gates, 0, 9, at(3))).await;
    assert_eq!(second.len(), 1, "the sample of bolt");
    assert_eq!(f.store.waiting_behind("api", "acme").await.expect("read"), waiting as u64 - 2);
    let wait = Duration::from_secs(5);
    f.end_behind_gate(&gates, &second[0], "bolt", at(4), retried(at(4), wait, true)).await;
    assert_eq!(f.samples(&samples_behind(&gates, 0, 9, at(8))).await, [], "it is not due");
    let again = f.samples(&samples_behind(&gates, 0, 9, at(9))).await;
    assert_eq!(ids(&again), ids(&second));
}

// GAT-4
pub async fn a_gate_that_closes_counts_samples_that_were_claimed_while_it_was_open(f: &Fixture) {
    let gates = rules(true, None);
    f.declare_for(&gates, UnitKind::Sample, "p/clean").await;
    let feed = f.reading(&new_run()).await;
    f.feed(feed, &lines_of(&["acme"; 3]), true).await;
    let held = f.samples(&samples_behind(&gates, 0, 9, at(1))).await;
    let wait = Duration::from_secs(30);
    f.end_behind_gate(&gates, &held[0], "acme", at(2), retried(at(2), wait, false)).await;
    let row = f.store.gate_rows(&[("api", "acme")]).await.expect("read").pop().expect("a row");
    assert_eq!((row.state.status, row.state.target), (GateStatus::Closed, 3));
}

// GAT-1
pub async fn a_gate_that_is_divided_otherwise_strands_nothing(f: &Fixture) {
    let (by_customer, undivided) = (rules(true, Some(1)), rules(false, Some(1)));
    f.declare_for(&by_customer, UnitKind::Sample, "p/clean").await;
    let feed = f.reading(&new_run()).await;
    f.feed(feed, &lines_of(&["acme", "acme"]), true).await;
    let probed = f.samples(&samples_behind(&by_customer, 0, 9, at(1))).await;
    assert_eq!((probed.len(), probed[0].gate_key()), (1, "acme"));
    let close = GateOrder::Close { until: Some(at(3)) };
    f.store.order_gate("api", "acme", &close, &operator(at(2))).await.expect("closed");
    let lease = sample_lease(&probed[0]);
    let releases = LeaseRelease::each(&[lease], &WorkerId("w1".to_owned()), "stopped");
    f.store.release_leases(Leased::Sample, &releases, at(3)).await.expect("released");
    let probed = f.samples(&samples_behind(&by_customer, 0, 9, at(4))).await;
    assert_eq!(f.status_of("acme").await, GateStatus::Probing);

    // The data has no such place, so both samples have an empty key.
    let declare = async |per: Option<&str>, key: Option<&str>| {
        let place = GatePlace { kind: UnitKind::Sample, place: "p/clean".to_owned() };
        let (per, key) = (per.map(str::to_owned), key.map(str::to_owned));
        let declared = DeclaredGate {
            name: "api".to_owned(),
            per,
            key,
            places: vec![place],
            ..DeclaredGate::default()
        };
        f.store.declare_gates(&vec![declared].into(), at(5)).await.expect("declared");
    };
    declare(Some("customer"), Some("/model")).await;
    assert_eq!(f.status_of("acme").await, GateStatus::Open, "nothing answers for its probe");
    let by_model = |now| SampleClaim {
        gate_key: Some("/model".to_owned()),
        ..samples_behind(&by_customer, 0, 9, now)
    };
    let others = f.samples(&by_model(at(6))).await;
    assert_eq!((others.len(), others[0].gate_key()), (1, ""));
    f.end_behind_gate(&by_customer, &others[0], "", at(7), answered("1")).await;
    f.end_behind_gate(&by_customer, &probed[0], "acme", at(7), answered("1")).await;

    let close = GateOrder::Close { until: None };
    for key in ["acme", ""] {
        f.store.order_gate("api", key, &close, &operator(at(8))).await.expect("closed");
    }
    declare(Some("model"), Some("/model")).await;
    assert_eq!(f.status_of("acme").await, GateStatus::Closed, "only the name is another");
    declare(None, None).await;
    assert_eq!(
        (f.status_of("acme").await, f.status_of("").await),
        (GateStatus::Open, GateStatus::Open)
    );
    assert_eq!(f.samples(&samples_behind(&undivided, 1, 9, at(9))).await.len(), 1);
}

/// A group that is uploaded behind a gate.
struct GatedUpload<'a> {
    f: &'a Fixture,
    gates: GateRules,
    ids: Vec<ItemId>,
    lease: LeaseRef,
}

impl<'a> GatedUpload<'a> {
    async fn start(f: &'a Fixture, gates: &GateRules, items: u32) -> Self {
        Self::start_until(f, gates, items, at(0) + FOR_LONG).await
    }

    async fn start_until(
        f: &'a Fixture,
        gates: &GateRules,
        items: u32,
        lease_until: Timestamp,
    ) -> Self {
        f.declare_for(gates, UnitKind::Item, "photos").await;
        let new = (0..items).map(|n| NewItem { group: group(), ..item(&format!("{n}.jpg")) });
        let ids = f.add(&new.collect::<Vec<_>>()).await;
        let (gates, lease) = (gates.clone(), f.claim_group_until(lease_until).await);
        Self { f, gates, ids, lease }
    }

    fn admission(&self, items: &[ItemId], limit: u32, now: Timestamp) -> ItemAdmission {
        ItemAdmission {
            gates: self.gates.clone(),
            group: group().group,
            items: items.to_vec(),
            limit,
            epoch: self.lease.epoch,
            owner: WorkerId("w1".to_owned()),
            now,
        }
    }

    async fn admit(&self, items: &[ItemId], now: Timestamp) -> usize {
        let admission = self.admission(items, items.len() as u32, now);
        self.f.store.admit_items(&admission).await.expect("answered").len()
    }

    async fn sent(&self, sent: &[(ItemId, Option<Failure>)], now: Timestamp) {
        let step = |(id, failure): &(ItemId, Option<Failure>)| {
            let event = match failure {
                Some(_) => ItemEvent::RejectAttempt,
                None => ItemEvent::Acknowledge,
            };
            let passed = PassedGates { rules: self.gates.clone(), key: group().group };
            let gates = Some(ItemPass { passed, epoch: self.lease.epoch, at_once: 3 });
            let (failure, worker) = (failure.clone(), "w1".to_owned());
            let attempt = ItemAttempt { started_at: now, failure, worker, after: None, gates };
            ItemMove { attempt: Some(attempt), ..ItemMove::new(*id, event, now) }
        };
        let moves: Vec<ItemMove> = sent.iter().map(step).collect();
        let written = self.f.store.move_items(&moves).await.expect("answered");
        assert_eq!(written, vec![Written::Applied; moves.len()]);
    }

    async fn holders(&self) -> Vec<ItemId> {
        let key = if self.gates[0].is_keyed { "acme" } else { "" };
        let permits = self.f.store.gate_permits("api", key, 99).await.expect("read");
        let item = |permit: &PermitHolder| {
            assert_eq!((permit.kind, permit.lease.epoch), (UnitKind::Item, self.lease.epoch));
            ItemId(permit.lease.id)
        };
        permits.iter().map(item).collect()
    }
}

fn group() -> ItemGroup {
    ItemGroup { upload: "photos".to_owned(), group: "acme".to_owned() }
}

fn slow_down() -> Option<Failure> {
    Some(Failure::http(429, Some(Duration::from_secs(30)), "slow down"))
}

// GAT-1, GAT-2, GAT-3, GAT-4, GAT-5
pub async fn items_pass_gates_with_their_group_as_the_key(f: &Fixture) {
    let mut upload = GatedUpload::start(f, &rules(true, Some(3)), 5).await;
    let ids = upload.ids.clone();
    assert_eq!(upload.admit(&ids, at(2)).await, 3, "as many as may be sent at once");
    assert_eq!(upload.admit(&ids[3..], at(2)).await, 0);
    upload.sent(&[(ids[0], None), (ids[1], slow_down())], at(3)).await;
    assert_eq!(f.status_of("acme").await, GateStatus::Closed);
    assert_eq!(upload.admit(&ids[3..], at(4)).await, 0);
    assert_eq!(upload.holders().await, [ids[2]], "still being sent");
    let owner = WorkerId("w1".to_owned());
    let release = LeaseRelease { lease: upload.lease, owner, why: "shutdown".to_owned() };
    let released = f.store.release_leases(Leased::Group, &[release], at(5)).await;
    assert_eq!(released.expect("answered"), [Written::Applied]);
    upload.lease = f.claim_group_until(at(0) + FOR_LONG).await;
    assert_eq!(upload.admit(&ids[1..], at(34)).await, 1, "one probe");
}

// GAT-3, GAT-4, GAT-5
pub async fn items_that_are_not_sent_give_back_their_places(f: &Fixture) {
    let upload = GatedUpload::start(f, &rules(false, Some(4)), 5).await;
    let ids = &upload.ids;
    assert_eq!(upload.admit(ids, at(2)).await, 4);
    upload.sent(&[(ids[0], slow_down())], at(3)).await;
    assert_eq!(upload.admit(&ids[1..], at(4)).await, 0);
    assert_eq!(upload.holders().await, [], "those that were kept back");
    assert_eq!(upload.admit(&ids[1..], at(34)).await, 1, "one probe");
    assert_eq!(upload.admit(&ids[2..], at(35)).await, 0, "it is being sent");
    let mut wakes = f.store.wakes();
    wakes.mark_unchanged();
    let given_back = f.store.admit_items(&upload.admission(&ids[1..2], 0, at(36))).await;
    assert_eq!((given_back.expect("answered").len(), upload.holders().await), (0, Vec::new()));
    wakes.changed().await.expect("others may pass now");
    assert_eq!(upload.admit(&ids[2..], at(37)).await, 1, "the next probe");
}

// GAT-4
pub async fn a_gate_before_items_opens_up_to_what_is_sent_at_once(f: &Fixture) {
    let upload = GatedUpload::start(f, &rules(true, None), 9).await;
    assert_eq!(upload.admit(&upload.ids, at(2)).await, 9, "it is open");
    // Results wait for others of their batch.
    let mut sent: Vec<_> = upload.ids.iter().map(|id| (*id, None)).collect();
    sent[8].1 = slow_down();
    upload.sent(&sent, at(3)).await;
    let row = f.store.gate_rows(&[("api", "acme")]).await.expect("read").pop().expect("noted");
    assert_eq!((row.state.status, row.state.target), (GateStatus::Closed, 3));
}

// GAT-4, GAT-5
pub async fn the_lease_of_a_dead_upload_ends_and_with_it_the_places_of_its_items(f: &Fixture) {
    let gates = rules(false, Some(1));
    f.declare_for(&gates, UnitKind::Partition, "ads").await;
    let a_second_ago = f.store.now() - SignedDuration::from_secs(1);
    let upload = GatedUpload::start_until(f, &gates, 2, a_second_ago).await;
    let close = GateOrder::Close { until: Some(at(3)) };
    f.store.order_gate("api", "", &close, &operator(at(2))).await.expect("closed");
    assert_eq!(upload.admit(&upload.ids[..1], at(4)).await, 1, "the probe");
    f.ask_for(&[key("acme", "2026-03-01")], at(1)).await;
    let probe = f.claim_partitions(&partitions_behind(&gates, 9, at(5))).await;
    assert_eq!(probe.len(), 1, "the place of the item");
    let holder = PermitHolder { kind: UnitKind::Partition, lease: probe[0].lease };
    assert_eq!(f.store.gate_permits("api", "", 9).await.expect("read"), [holder]);
}

// GAT-4, GAT-5
pub async fn a_lost_unit_of_any_kind_gives_back_its_place(f: &Fixture) {
    let gates = rules(false, Some(1));
    f.declare_for(&gates, UnitKind::Sample, "p/clean").await;
    let feed = f.reading(&new_run()).await;
    f.feed(feed, &lines_of(&["a", "b"]), true).await;
    let held = f.samples(&samples_behind(&gates, 0, 9, at(2))).await;
    assert_eq!(held.len(), 1);
    f.ask_for(&[key("acme", "2026-03-01")], at(1)).await;
    assert_eq!(f.claim_partitions(&partitions_behind(&gates, 9, at(3))).await, [], "one gate");
    let release = |lease: LeaseRef| LeaseRelease {
        lease,
        owner: WorkerId("w1".to_owned()),
        why: "shutdown".to_owned(),
    };
    let lease = sample_lease(&held[0]);
    let kind = Leased::Sample;
    let released = f.store.release_leases(kind, &[release(lease)], at(4)).await.expect("answered");
    assert_eq!(released, [Written::Applied]);
    let taken = f.claim_partitions(&partitions_behind(&gates, 9, at(5))).await;
    assert_eq!(taken.len(), 1, "the place of the sample");
    assert_eq!(f.samples(&samples_behind(&gates, 0, 9, at(5))).await, []);
    let kind = Leased::Partition;
    let released = f.store.release_leases(kind, &[release(taken[0].lease)], at(6)).await;
    assert_eq!(released.expect("answered"), [Written::Applied]);
    assert_eq!(f.samples(&samples_behind(&gates, 0, 9, at(7))).await.len(), 1);
}

impl Fixture {
    async fn samples(&self, claim: &SampleClaim) -> Vec<ClaimedSample> {
        self.store.claim_samples(claim).await.expect("claimed")
    }
}
