//! Plans over partitions, items and samples.

use redrive_core::{
    Epoch, Failure, ItemEvent, ItemId, ItemStatus, PartitionKey, PartitionState, PlanId,
    PlanStatus, SampleId, SampleState,
};
use redrive_store::{
    AddedItem, ClaimedGroup, GroupClaim, ItemAttempt, ItemMove, ItemRecord, LeaseRef, LeaseRelease,
    Leased, PartitionAction, PartitionRecord, PlanAction, PlanChange, PlanOrder, PlanOutcome,
    PlanUnit, UnitKind, WorkerId, Written,
};

use super::{
    Fixture,
    items::{group, item},
    partition_samples::{REPROCESS, RETRY, RETRY_CLEARED, accepted, day, rejected},
    pipeline_samples::{answered, broken, dead},
    samples::{at, operator},
};

impl Fixture {
    pub(super) async fn sample_units(&self, samples: i64) -> Vec<PlanUnit> {
        let mut units = Vec::new();
        for id in 1..=samples {
            units.push(PlanUnit::Sample(self.sample(SampleId(id)).await));
        }
        units
    }

    pub(super) async fn partition_units(&self, keys: &[PartitionKey]) -> Vec<PlanUnit> {
        let found = self.store.partitions_by_key(keys).await.expect("read");
        found.into_iter().flatten().map(PlanUnit::Partition).collect()
    }

    async fn partitions(&self, keys: &[PartitionKey]) -> Vec<PartitionRecord> {
        self.store.partitions_by_key(keys).await.expect("read").into_iter().flatten().collect()
    }

    /// Returns what a plan made pending.
    async fn undo(&self, plan: PlanId, lease: LeaseRef) {
        let before = self.plan_record(plan).await.status;
        assert_eq!(self.order(plan, PlanOrder::Undo).await, PlanChange::Done(before));
        self.store.undo_plan(lease, 100, at(41)).await.expect("undone").expect("held");
    }

    /// Items that were given up after a rejection.
    async fn given_up_items(&self, names: &[&str]) -> Vec<ItemId> {
        let new: Vec<_> = names.iter().map(|name| item(name)).collect();
        let added = self.store.add_items(&new, &operator(at(1))).await.expect("added");
        let mut ids = Vec::new();
        for added in added {
            let AddedItem::Accepted(id) = added else { panic!("{added:?}") };
            self.store.increment_upload_attempts(id).await.expect("counted");
            self.refuse_item(id, 2, "too blurred").await;
            self.give_up_item(id).await;
            ids.push(id);
        }
        ids
    }

    async fn refuse_item(&self, id: ItemId, second: i64, why: &str) {
        let attempt = ItemAttempt {
            gates: None,
            started_at: at(second),
            failure: Some(Failure::http(422, None, why)),
            worker: "w1".to_owned(),
            after: None,
        };
        let attempt = Some(attempt);
        let reject =
            ItemMove { attempt, ..ItemMove::new(id, ItemEvent::RejectAttempt, at(second)) };
        assert_eq!(self.store.move_items(&[reject]).await.expect("moved"), [Written::Applied]);
    }

    async fn give_up_item(&self, id: ItemId) {
        let give_up = ItemMove::new(id, ItemEvent::GiveUp, at(3));
        assert_eq!(self.store.move_items(&[give_up]).await.expect("moved"), [Written::Applied]);
    }

    async fn items(&self, ids: &[ItemId]) -> Vec<ItemRecord> {
        self.store.items_by_id(ids).await.expect("read")
    }
}

// PLN-3, PLN-5
pub async fn a_plan_retries_partitions_and_knows_what_became_of_them(f: &Fixture) {
    let keys: Vec<PartitionKey> = (1..=5).map(day).collect();
    for (key, state) in keys.iter().zip([
        PartitionState::Failed,
        PartitionState::Failed,
        PartitionState::Failed,
        PartitionState::Terminal,
        PartitionState::Success,
    ]) {
        f.partition_in(state, key).await;
    }
    let plan = f.plan_over(PlanAction::Partition(RETRY), &f.partition_units(&keys).await).await;
    let refusals: Vec<bool> =
        f.plan_units(plan).await.iter().map(|unit| unit.refusal.is_some()).collect();
    assert_eq!(refusals, [false, false, false, true, true]);
    let lease = f.apply_plan(plan).await;
    let stepped = f.step(lease, 10, 21).await.expect("stepped");
    assert_eq!((stepped.counts.changed, stepped.counts.skipped), (3, 2));
    let told = f.told_of(&keys[0]).await.pop().expect("told");
    assert_eq!((told.action.as_str(), told.actor.as_str()), ("partition.retry", "ada"));
    assert!(told.details.contains(&format!("\"plan\":{plan}")), "{}", told.details);

    for judged in [accepted(3), rejected("no rows"), rejected("17 columns, expected 3")] {
        let claimed = f.take(at(30)).await;
        f.judge(&claimed, at(31), judged).await;
    }
    let settled = f.settle(lease).await;
    assert_eq!(settled.counts.pending, 0);
    let expected = [
        PlanOutcome::Recovered,
        PlanOutcome::SameCause,
        PlanOutcome::OtherCause,
        PlanOutcome::Skipped,
        PlanOutcome::Skipped,
    ];
    assert_eq!(f.outcomes(plan).await, expected.map(Some));
}

// PLN-3, FIX-4
pub async fn a_plan_skips_what_was_refused_since_with_the_reason(f: &Fixture) {
    let keys: Vec<PartitionKey> = (1..=3).map(day).collect();
    for key in &keys {
        f.partition_in(PartitionState::Failed, key).await;
    }
    let plan = f.plan_over(PlanAction::Partition(RETRY), &f.partition_units(&keys).await).await;
    let lease = f.apply_plan(plan).await;
    f.step(lease, 1, 21).await.expect("stepped");
    let ids: Vec<i64> = f.plan_units(plan).await.iter().map(|unit| unit.unit_id).collect();
    let mut found = f.store.units_by_id(UnitKind::Partition, &ids).await.expect("read");
    found.sort_unstable_by_key(PlanUnit::id);
    let states: Vec<&str> = found.iter().map(PlanUnit::state).collect();
    assert_eq!(states, ["pending", "failed", "failed"]);
    let gone: Vec<(i64, String)> =
        ids.iter().take(2).map(|id| (*id, "the data is gone".to_owned())).collect();
    let stale = LeaseRef { epoch: Epoch(lease.epoch.0 + 1), ..lease };
    let refuse = async |lease| f.store.refuse_plan_units(lease, &gone).await.expect("answered");
    assert_eq!((refuse(stale).await, refuse(lease).await), (Written::Stale, Written::Applied));
    let stepped = f.step(lease, 10, 22).await.expect("stepped");
    assert_eq!((stepped.counts.changed, stepped.counts.skipped), (2, 1));
    let units = f.plan_units(plan).await;
    let reasons: Vec<Option<&str>> = units.iter().map(|unit| unit.reason.as_deref()).collect();
    assert_eq!(reasons, [None, Some("the data is gone"), None], "what was changed stays so");
    assert_eq!(units[0].refusal, None);
}

// PLN-4
pub async fn an_undo_returns_partitions_that_no_worker_has_started(f: &Fixture) {
    let keys: Vec<PartitionKey> = (1..=4).map(day).collect();
    f.partition_in(PartitionState::Failed, &keys[0]).await;
    f.partition_in(PartitionState::Terminal, &keys[1]).await;
    f.partition_in(PartitionState::Failed, &keys[2]).await;
    f.partition_in(PartitionState::Failed, &keys[3]).await;
    f.change_one(PartitionAction::Pause, &keys[3], at(13)).await;
    let before = f.partitions(&keys).await;
    let action = PlanAction::Partition(RETRY_CLEARED);
    let plan = f.plan_over(action, &f.partition_units(&keys).await).await;
    let lease = f.apply_plan(plan).await;
    assert_eq!(f.step(lease, 10, 21).await.expect("stepped").counts.changed, 4);
    // One starts, and one is claimed and released before it starts.
    let mut claimed = f.claim_partitions(&super::partition_samples::claim_of(2, 0, at(30))).await;
    let (started, ahead) = (claimed.remove(0), claimed.remove(0));
    let back = LeaseRelease::each(&[ahead.lease], &WorkerId("w1".to_owned()), "gate_closed");
    let back = f.store.release_leases(Leased::Partition, &back, at(31)).await;
    assert_eq!(back.expect("released"), [Written::Applied]);
    f.undo(plan, lease).await;
    let after = f.partitions(&keys).await;
    for (before, after) in before.iter().zip(&after) {
        if before.key == started.key {
            assert_eq!(after.state(), PartitionState::Pending);
            continue;
        }
        assert_eq!((after.state(), &after.error_message), (before.state(), &before.error_message));
        assert_eq!(
            (after.updated_at, after.attempt_count),
            (before.updated_at, before.attempt_count)
        );
        assert_eq!(after.paused(), before.paused());
        assert!(after.work.as_ref().is_none_or(|work| work.request.is_none()));
        assert_eq!(f.actions_on(&before.key).await.last().expect("told"), "partition.undo");
    }
    let undone = f.plan_record(plan).await;
    assert_eq!((undone.undone, undone.counts.pending), (3, 1));
    assert_eq!(f.claim_partitions(&super::partition_samples::claim_of(5, 0, at(50))).await, []);
}

// PLN-3, PLN-4, PLN-5
pub async fn a_plan_reprocesses_partitions_that_stay_good(f: &Fixture) {
    let keys: Vec<PartitionKey> = (1..=3).map(day).collect();
    for key in &keys {
        f.partition_in(PartitionState::Success, key).await;
    }
    let before = f.partitions(&keys).await;
    let units = f.partition_units(&keys).await;
    let plan = f.plan_over(PlanAction::Partition(REPROCESS), &units).await;
    let lease = f.apply_plan(plan).await;
    assert_eq!(f.step(lease, 10, 21).await.expect("stepped").counts.pending, 3);
    // The worker's clock is behind the one of the plan.
    for judged in [accepted(9), rejected("worse than before")] {
        let claim = super::partition_samples::claim_of(1, 1, at(30));
        let claimed = f.claim_partitions(&claim).await.pop().expect("a partition");
        f.judge(&claimed, at(15), judged).await;
    }
    let settled = f.settle(lease).await;
    assert_eq!((settled.counts.recovered, settled.counts.failed()), (1, 1));
    f.undo(plan, lease).await;
    let outcomes = [PlanOutcome::Recovered, PlanOutcome::OtherCause, PlanOutcome::Undone];
    assert_eq!(f.outcomes(plan).await, outcomes.map(Some));
    assert_eq!(f.partitions(&keys).await[2], before[2], "as it was before the plan");
}

// PLN-3, PLN-4, PLN-5
pub async fn a_plan_resets_items_and_returns_them(f: &Fixture) {
    let ids = f.given_up_items(&["a", "b", "c", "d"]).await;
    let before = f.items(&ids).await;
    let units: Vec<PlanUnit> = before.iter().cloned().map(PlanUnit::Item).collect();
    let plan = f.plan_over(PlanAction::ResetItem, &units).await;
    let lease = f.apply_plan(plan).await;
    assert_eq!(f.step(lease, 10, 21).await.expect("stepped").counts.pending, 4);
    assert!(f.items(&ids).await.iter().all(|item| item.status == ItemStatus::Pending));
    let told = f.told_by("upload.reset").await.pop().expect("told");
    assert!(told.details.contains(&format!("\"plan\":{plan}")), "{}", told.details);

    // One is acknowledged, one is given up again.
    let sent = ItemMove::new(ids[0], ItemEvent::Acknowledge, at(30));
    assert_eq!(f.store.move_items(&[sent]).await.expect("moved"), [Written::Applied]);
    f.refuse_item(ids[1], 31, "too blurred").await;
    f.give_up_item(ids[1]).await;
    let settled = f.settle(lease).await;
    assert_eq!((settled.counts.recovered, settled.counts.same_cause), (1, 1));

    let upload = GroupClaim {
        group: group("g"),
        owner: WorkerId("w1".to_owned()),
        now: at(40),
        lease_until: at(100),
    };
    let ClaimedGroup::Held(held) = f.store.claim_group(&upload).await.expect("answered") else {
        panic!("the group is free");
    };
    f.undo(plan, lease).await;
    let undone = f.plan_record(plan).await;
    assert_eq!(
        (undone.status, undone.undone),
        (PlanStatus::Undone, 0),
        "the group is being uploaded"
    );

    let ids = f.given_up_items(&["e"]).await;
    let before = f.items(&ids).await;
    let units: Vec<PlanUnit> = before.iter().cloned().map(PlanUnit::Item).collect();
    let plan = f.plan_over(PlanAction::ResetItem, &units).await;
    let lease = f.apply_plan(plan).await;
    f.step(lease, 10, 43).await.expect("stepped");
    let release = LeaseRelease::each(&[held], &upload.owner, "done");
    let released = f.store.release_leases(Leased::Group, &release, at(44)).await;
    assert_eq!(released.expect("released"), [Written::Applied]);
    f.undo(plan, lease).await;
    let after = f.items(&ids).await;
    let expected = ItemRecord { updated_at: at(41), ..before[0].clone() };
    assert_eq!(after, [expected], "as it was before the plan");
    assert_eq!(f.told_by("item.undo").await.len(), 1);
}

// PLN-3, PLN-5
pub async fn a_plan_reprocesses_dead_letters_and_reopens_their_run(f: &Fixture) {
    let run = f.run_of(4).await;
    f.end_each(at(2), vec![broken(), broken(), broken(), answered("1")]).await;
    assert_eq!(f.progress(run).await.counts.dlq, 3);
    let units = f.sample_units(4).await;
    let plan = f.plan_over(PlanAction::ReprocessSample, &units).await;
    let lease = f.apply_plan(plan).await;
    let stepped = f.step(lease, 10, 21).await.expect("stepped");
    assert_eq!((stepped.counts.changed, stepped.counts.skipped), (3, 1));
    assert_eq!(f.progress(run).await.counts.dlq, 0);
    assert_eq!(f.sample(SampleId(1)).await.state(), SampleState::Ready);
    assert_eq!(f.sample(SampleId(1)).await.data, Some("{\"n\": 1}".to_owned()));
    let told = f.told_by("sample.reprocess").await.pop().expect("told");
    assert!(told.details.contains(&format!("\"plan\":{plan}")), "{}", told.details);

    let elsewhere = dead(Failure::http(404, None, "somewhere else"));
    f.end_each(at(30), vec![answered("2"), broken(), elsewhere]).await;
    let settled = f.settle(lease).await;
    assert_eq!(settled.counts.pending, 0);
    let outcomes = [
        PlanOutcome::Recovered,
        PlanOutcome::SameCause,
        PlanOutcome::OtherCause,
        PlanOutcome::Skipped,
    ];
    assert_eq!(f.outcomes(plan).await, outcomes.map(Some));
}
