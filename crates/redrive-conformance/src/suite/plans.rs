//! Plans over runs: frozen, stepped, watched, fenced and undone.

use std::{sync::Arc, time::Duration};

use redrive_core::{
    Decision, Failure, GiveUpReason, PlanBatch, PlanCounts, PlanId, PlanSettings, PlanStatus,
    RunId, RunState,
};
use redrive_store::{
    LeaseRef, NewPlan, Operator, PageLimit, PlanAction, PlanChange, PlanClaim, PlanEnd, PlanOrder,
    PlanOutcome, PlanRecord, PlanUnit, PlanUnitRecord, PlannedUnit, RunAction, RunCompletion,
    Selection, WorkerId, Written,
};
use serde_json::{Value, json};

use super::{
    Fixture,
    samples::{at, claim_of, give_up, operator, passed, retry, run},
};

pub(super) const RETRY: PlanAction = PlanAction::Run(RunAction::Retry);

fn batch(units: u32, counts: &PlanCounts) -> PlanBatch {
    let position = counts.position();
    PlanBatch { units, position, interval: Duration::ZERO, ramp_from: None }
}

fn claim_by(owner: &str, now: i64) -> PlanClaim {
    PlanClaim {
        owner: WorkerId(owner.to_owned()),
        lease_until: at(now + 60),
        now: at(now),
        only: None,
        except: Vec::new(),
        limit: 10,
    }
}

fn other_failure() -> RunCompletion {
    RunCompletion::Failed {
        failure: Failure::http(404, None, "somewhere else"),
        decision: Decision::GiveUp { reason: GiveUpReason::Final },
    }
}

impl Fixture {
    /// Runs that were given up, in the queue `q`.
    pub(super) async fn dead_runs(&self, count: usize) -> Vec<RunId> {
        let runs: Vec<_> = (0..count).map(|_| run("q", "", at(0))).collect();
        let ids = self.submit(&runs, at(0)).await;
        for claimed in self.claim(&claim_of(1_000, at(1))).await {
            self.end(&claimed, at(2), give_up(GiveUpReason::Final)).await;
        }
        ids
    }

    /// A plan over all runs of the queue, with its list complete.
    pub(super) async fn plan(&self, action: PlanAction) -> PlanId {
        let all = Selection { queue: Some("q".to_owned()), ..Selection::default() };
        let page = PageLimit::without_data(1_000);
        let runs = self.store.runs_page(&all, RunId(0), page).await.expect("read");
        let units: Vec<PlanUnit> = runs.into_iter().map(PlanUnit::Run).collect();
        self.plan_over(action, &units).await
    }

    /// A plan whose list is complete.
    pub(super) async fn plan_over(&self, action: PlanAction, units: &[PlanUnit]) -> PlanId {
        let plan = NewPlan {
            action,
            selection: "{}".to_owned(),
            settings: PlanSettings::default(),
            by: operator(at(10)),
        };
        let id = self.store.create_plan(&plan).await.expect("created");
        let units: Vec<PlannedUnit> =
            units.iter().map(|unit| PlannedUnit::new(action, unit)).collect();
        let added = self.store.add_plan_units(id, &units).await;
        assert_eq!(added.expect("added"), Written::Applied);
        let frozen = self.store.freeze_plan(id, at(11)).await;
        assert_eq!(frozen.expect("frozen"), Written::Applied);
        id
    }

    pub(super) async fn order(&self, id: PlanId, order: PlanOrder) -> PlanChange {
        self.store.change_plan(id, &order, &operator(at(20))).await.expect("answered")
    }

    pub(super) async fn apply_plan(&self, id: PlanId) -> LeaseRef {
        let applied = self.order(id, PlanOrder::Apply(PlanSettings::default())).await;
        assert_eq!(applied, PlanChange::Done(PlanStatus::Draft));
        self.claim_plan("e1", 20).await.expect("a plan to execute").lease()
    }

    pub(super) async fn claim_plan(&self, owner: &str, now: i64) -> Option<PlanRecord> {
        self.store.claim_plans(&claim_by(owner, now)).await.expect("claimed").pop()
    }

    pub(super) async fn plan_record(&self, id: PlanId) -> PlanRecord {
        self.store.plans_by_id(&[id]).await.expect("read").pop().expect("the plan is there")
    }

    pub(super) async fn plan_units(&self, id: PlanId) -> Vec<PlanUnitRecord> {
        self.store.plan_units_page(id, None, 0, 1_000).await.expect("read")
    }

    pub(super) async fn outcomes(&self, id: PlanId) -> Vec<Option<PlanOutcome>> {
        self.plan_units(id).await.into_iter().map(|unit| unit.outcome).collect()
    }

    pub(super) async fn step(
        &self,
        lease: LeaseRef,
        units: u32,
        second: i64,
    ) -> Option<PlanRecord> {
        let plan = self.plan_record(PlanId(lease.id)).await;
        let batch = batch(units, &plan.counts);
        self.store.step_plan(lease, &batch, at(second)).await.expect("answered")
    }

    pub(super) async fn settle(&self, lease: LeaseRef) -> PlanRecord {
        let settled = self.store.settle_plan(lease, 0, 1_000, at(50)).await.expect("answered");
        settled.expect("the lease is held").0
    }

    pub(super) async fn states(&self, ids: &[RunId]) -> Vec<RunState> {
        let mut states = Vec::new();
        for id in ids {
            states.push(self.run(*id).await.state());
        }
        states
    }
}

// PLN-1
pub async fn a_draft_lists_its_units_and_changes_nothing(f: &Fixture) {
    let ids = f.dead_runs(3).await;
    let fresh = f.submit(&[run("q", "", at(5))], at(5)).await[0];
    let before = f.store.runs_by_id(&ids).await.expect("read");
    let id = f.plan(RETRY).await;

    let plan = f.plan_record(id).await;
    assert_eq!((plan.action, plan.status), (RETRY, PlanStatus::Draft));
    assert_eq!((plan.created_at, plan.created_by.as_str()), (at(10), "ada"));
    assert_eq!((plan.reason.as_deref(), plan.frozen_at), (Some("looks wrong"), Some(at(11))));
    assert_eq!(plan.counts, PlanCounts { total: 4, ..PlanCounts::default() });
    assert_eq!((plan.selection.as_str(), plan.has_work()), ("{}", false));

    let units = f.plan_units(id).await;
    let dead = &units[0];
    assert_eq!((dead.unit_id, dead.state.as_str()), (ids[0].0, "error, given up"));
    assert_eq!((&dead.cause, &dead.refusal), (&before[0].fingerprint, &None));
    let refused = "the run is discovered";
    assert_eq!((units[3].unit_id, units[3].refusal.as_deref()), (fresh.0, Some(refused)));
    let counts = f.store.plan_unit_counts(id).await.expect("counted");
    let counts: Vec<_> = counts.iter().map(|it| (it.cause.is_some(), it.units)).collect();
    assert_eq!(counts, [(true, 3), (false, 1)]);

    assert_eq!(f.store.runs_by_id(&ids).await.expect("read"), before);
    assert_eq!(f.claim_plan("e1", 20).await, None, "a draft has nothing to execute");
    let one = PlannedUnit { unit_id: 99, state: "x", version: 0, cause: None, refusal: None };
    let late = f.store.add_plan_units(id, &[one]).await;
    assert_eq!(late.expect("answered"), Written::Stale, "the list is complete");
    let again = f.store.freeze_plan(id, at(12)).await;
    assert_eq!(again.expect("answered"), Written::Stale);
}

// PLN-1
pub async fn a_unit_is_listed_once_and_an_incomplete_list_is_not_applied(f: &Fixture) {
    let ids = f.dead_runs(2).await;
    let plan = NewPlan {
        action: RETRY,
        selection: "{}".to_owned(),
        settings: PlanSettings::default(),
        by: operator(at(10)),
    };
    let id = f.store.create_plan(&plan).await.expect("created");
    let mut units = Vec::new();
    for run in &ids {
        units.push(PlannedUnit::new(RETRY, &PlanUnit::Run(f.run(*run).await)));
    }
    for units in [&units[..1], &units[..]] {
        _ = f.store.add_plan_units(id, units).await.expect("added");
    }
    assert_eq!(f.plan_record(id).await.counts.total, 2);
    assert_eq!(f.plan_units(id).await.len(), 2);
    let apply = PlanOrder::Apply(PlanSettings::default());
    assert_eq!(f.order(id, apply).await, PlanChange::NotFrozen);
    assert_eq!(f.order(PlanId(id.0 + 1), apply).await, PlanChange::Unknown);
}

pub async fn a_draft_can_be_discarded(f: &Fixture) {
    f.dead_runs(3).await;
    let id = f.plan(RETRY).await;
    let kept = f.plan(RETRY).await;
    assert!(f.store.discard_plan(id, 2, &operator(at(10))).await.expect("discarded"));
    // Interrupted here, the plan has a part of its units, and cannot be applied.
    let left = f.plan_record(id).await;
    assert_eq!((left.counts.total, left.frozen_at, f.plan_units(id).await.len()), (1, None, 1));
    let counts = f.store.plan_unit_counts(id).await.expect("read");
    assert_eq!(counts, f.store.count_plan_units(id).await.expect("read"), "no stale counts");
    let applied = f.order(id, PlanOrder::Apply(PlanSettings::default())).await;
    assert_eq!(applied, PlanChange::NotFrozen);
    assert!(f.store.discard_plan(id, 2, &operator(at(10))).await.expect("discarded"));
    assert!(!f.store.discard_plan(id, 2, &operator(at(10))).await.expect("discarded"));
    assert_eq!(f.store.plans_by_id(&[id]).await.expect("read"), []);
    assert_eq!(f.plan_units(id).await, []);
    assert_eq!(f.told_by("plan.discard").await.len(), 1);

    let lease = f.apply_plan(kept).await;
    assert!(!f.store.discard_plan(kept, 10, &operator(at(10))).await.expect("answered"));
    assert_eq!(f.plan_units(kept).await.len(), 3);
    let newest = f.store.plans_page(PlanId(i64::MAX), 10).await.expect("read");
    assert_eq!(newest.len(), 1);
    assert_eq!(newest[0].lease(), lease);
}

// PLN-3
pub async fn a_plan_changes_only_units_that_are_as_they_were_frozen(f: &Fixture) {
    let ids = f.dead_runs(4).await;
    let id = f.plan(RETRY).await;
    // Retried and failed again, retried, cancelled: all but the first have changed.
    let by = operator(at(12));
    f.store.retry_runs(&ids[1..2], &by).await.expect("retried");
    let claimed = f.claim_one(at(13)).await;
    f.end(&claimed, at(14), give_up(GiveUpReason::Final)).await;
    f.store.retry_runs(&ids[2..3], &by).await.expect("retried");
    f.store.cancel_runs(&ids[3..], &by).await.expect("cancelled");
    let lease = f.apply_plan(id).await;

    let after = f.step(lease, 3, 21).await.expect("stepped");
    assert_eq!((after.counts.changed, after.counts.skipped, after.counts.pending), (1, 3, 1));
    let again = f.step(lease, 3, 23).await.expect("stepped");
    assert_eq!(again.counts, after.counts, "nothing is left");

    let units = f.plan_units(id).await;
    let reasons: Vec<_> = units.iter().map(|unit| unit.reason.as_deref()).collect();
    let reasons_expected = [
        None,
        Some("the run was tried again since the plan was made"),
        Some("the run was error, given up and is discovered now"),
        Some("the run was error, given up and is cancelled now"),
    ];
    assert_eq!(reasons, reasons_expected);
    let counts = f.store.plan_unit_counts(id).await.expect("counted");
    let mut counted: Vec<_> = counts.iter().map(|alike| alike.refusal.as_deref()).collect();
    counted.sort_unstable();
    let mut reasons_sorted = reasons_expected;
    reasons_sorted.sort_unstable();
    assert_eq!(counted, reasons_sorted);
    assert_eq!((units[0].outcome, units[0].outcome_at), (Some(PlanOutcome::Pending), Some(at(21))));
    let states =
        [RunState::Discovered, RunState::GivenUp, RunState::Discovered, RunState::Cancelled];
    assert_eq!(f.states(&ids).await, states);

    let told = f.told(Some(ids[0])).await.pop().expect("told");
    assert_eq!((told.action.as_str(), told.actor.as_str(), told.at), ("run.retry", "ada", at(21)));
    let details: Value = serde_json::from_str(&told.details).expect("JSON");
    let expected = json!({ "before": "error, given up", "plan": id.0, "reason": "looks wrong" });
    assert_eq!(details, expected);
    assert_eq!(f.told(Some(ids[3])).await.last().expect("told").at, at(12));
}

// PLN-2, PLN-3
pub async fn a_step_that_comes_late_changes_nothing(f: &Fixture) {
    f.dead_runs(4).await;
    let id = f.plan(RETRY).await;
    let lease = f.apply_plan(id).await;
    let first = batch(2, &f.plan_record(id).await.counts);
    let second = f.step(lease, 1, 21).await.expect("stepped");
    // The answer of the first was lost, and it reaches the store after the second.
    let late = f.store.step_plan(lease, &first, at(22)).await.expect("answered");
    assert_eq!(late.expect("held"), second);
    assert_eq!(f.outcomes(id).await.iter().flatten().count(), 1);
}

// PLN-2, PLN-3
pub async fn units_that_are_skipped_cost_no_place_in_a_step(f: &Fixture) {
    let ids = f.dead_runs(40).await;
    let id = f.plan(RETRY).await;
    let others = [&ids[..20], &ids[21..39]].concat();
    f.store.retry_runs(&others, &operator(at(15))).await.expect("retried");
    let lease = f.apply_plan(id).await;
    let plan = f.step(lease, 1, 21).await.expect("stepped");
    assert_eq!(plan.counts.changed, 1);
    assert!(plan.counts.skipped >= 20, "{:?}", plan.counts);
    assert_eq!(f.states(&ids[20..21]).await, [RunState::Discovered]);
    assert_eq!(f.states(&ids[39..]).await, [RunState::GivenUp]);
    let plan = f.step(lease, 1, 22).await.expect("stepped");
    assert_eq!((plan.counts.changed, plan.counts.rest()), (2, 0));
    assert_eq!(f.outcomes(id).await.iter().flatten().count(), 40);
}

// PLN-3
pub async fn a_lost_executor_changes_nothing(f: &Fixture) {
    let ids = f.dead_runs(2).await;
    let id = f.plan(RETRY).await;
    let lost = f.apply_plan(id).await;
    assert_eq!(f.claim_plan("e2", 79).await, None, "the lease has not ended");
    let taken = f.claim_plan("e2", 80).await.expect("taken over");
    assert!(taken.lease_epoch > lost.epoch);
    assert_eq!(taken.lease_owner, Some(WorkerId("e2".to_owned())));

    assert_eq!(f.step(lost, 10, 81).await, None);
    let store = &f.store;
    assert_eq!(store.settle_plan(lost, 0, 10, at(81)).await.expect("answered"), None);
    assert_eq!(store.undo_plan(lost, 10, at(81)).await.expect("answered"), None);
    let end = store.end_plan(lost, &PlanEnd::Complete, at(81)).await;
    assert_eq!(end.expect("answered"), None);
    assert_eq!(store.renew_plan(lost, at(900)).await.expect("answered"), None);
    assert_eq!(store.release_plan(lost).await.expect("answered"), Written::Stale);
    assert_eq!(f.plan_record(id).await, taken);
    assert_eq!(f.states(&ids).await, [RunState::GivenUp; 2]);

    let renewed = store.renew_plan(taken.lease(), at(200)).await.expect("answered");
    assert_eq!(renewed.expect("held").lease_until, Some(at(200)));
    let earlier = store.renew_plan(taken.lease(), at(100)).await.expect("answered");
    assert_eq!(earlier.expect("held").lease_until, Some(at(200)));
    assert_eq!(store.release_plan(taken.lease()).await.expect("answered"), Written::Applied);
    assert_eq!(f.step(taken.lease(), 10, 82).await, None, "it was released");
    let only = PlanClaim { only: Some(PlanId(id.0 + 1)), ..claim_by("e3", 83) };
    assert_eq!(store.claim_plans(&only).await.expect("answered"), []);
    assert!(f.claim_plan("e3", 83).await.is_some());
}

// PLN-2, PLN-4
pub async fn an_executor_ends_a_plan_and_says_why(f: &Fixture) {
    f.dead_runs(1).await;
    for end in [PlanEnd::Complete, PlanEnd::Abort("9 of 10 failed".to_owned())] {
        let id = f.plan(RETRY).await;
        let lease = f.apply_plan(id).await;
        let ended = f.store.end_plan(lease, &end, at(30)).await.expect("answered");
        let ended = ended.expect("held");
        let told = f.told(None).await.pop().expect("told");
        assert_eq!((ended.ended_at, told.actor.as_str()), (Some(at(30)), "e1"));
        match &end {
            PlanEnd::Complete => {
                assert_eq!((ended.status, told.action.as_str()), (PlanStatus::Done, "plan.done"));
            }
            PlanEnd::Abort(why) => {
                assert_eq!(ended.status, PlanStatus::Aborted);
                assert_eq!(
                    (ended.stop_reason.as_ref(), told.action.as_str()),
                    (Some(why), "plan.abort")
                );
                assert!(told.details.contains(why));
            }
        }
        assert!(!ended.has_work());
    }
}

// PLN-5
pub async fn what_became_of_units_is_known_by_cause(f: &Fixture) {
    let ids = f.dead_runs(5).await;
    let id = f.plan(RETRY).await;
    let lease = f.apply_plan(id).await;
    f.step(lease, 10, 21).await.expect("stepped");
    let claimed = f.claim(&claim_of(4, at(30))).await;
    assert_eq!(f.settle(lease).await.counts.pending, 5, "nothing has ended");
    f.end(&claimed[0], at(31), passed()).await;
    f.end(&claimed[1], at(31), give_up(GiveUpReason::Final)).await;
    f.end(&claimed[2], at(31), other_failure()).await;
    f.end(&claimed[3], at(31), retry(at(31), Duration::from_secs(600), true)).await;
    f.store.cancel_runs(&ids[4..], &operator(at(32))).await.expect("cancelled");

    let plan = f.settle(lease).await;
    let expected = PlanCounts {
        total: 5,
        changed: 5,
        skipped: 0,
        pending: 1,
        recovered: 1,
        same_cause: 1,
        other_cause: 1,
    };
    assert_eq!((plan.counts, plan.superseded), (expected, 1));
    let outcomes = [
        PlanOutcome::Recovered,
        PlanOutcome::SameCause,
        PlanOutcome::OtherCause,
        PlanOutcome::Pending,
        PlanOutcome::Superseded,
    ];
    assert_eq!(f.outcomes(id).await, outcomes.map(Some));
    let units = f.plan_units(id).await;
    assert_eq!(units[1].new_cause, units[1].cause);
    assert!(units[2].new_cause.is_some() && units[2].new_cause != units[2].cause);
    assert_eq!(units[0].outcome_at, Some(at(50)));

    // The last one ends after the plan.
    f.store.end_plan(lease, &PlanEnd::Complete, at(60)).await.expect("ended");
    assert!(f.plan_record(id).await.has_work());
    let last = f.claim_one(at(700)).await;
    f.end(&last, at(701), passed()).await;
    let plan = f.settle(lease).await;
    assert_eq!((plan.counts.pending, plan.counts.recovered, plan.has_work()), (0, 2, false));
    let of_cause = f.store.plan_units_page(id, Some(PlanOutcome::OtherCause), 0, 10).await;
    assert_eq!(of_cause.expect("read"), units[2..3]);
}

// PLN-5
pub async fn pending_units_are_settled_page_by_page(f: &Fixture) {
    f.dead_runs(5).await;
    let id = f.plan(RETRY).await;
    let lease = f.apply_plan(id).await;
    f.step(lease, 10, 21).await.expect("stepped");
    for claimed in f.claim(&claim_of(10, at(30))).await {
        f.end(&claimed, at(31), passed()).await;
    }
    let (mut after, mut pages) = (0, 0);
    while let Some((_, Some(next))) =
        f.store.settle_plan(lease, after, 2, at(50)).await.expect("answered")
    {
        (after, pages) = (next, pages + 1);
    }
    assert_eq!(pages, 2);
    assert_eq!(f.plan_record(id).await.counts.recovered, 5);
}

// PLN-3
pub async fn a_plan_of_a_newer_version_holds_up_no_other(f: &Fixture) {
    f.dead_runs(2).await;
    let (newer, known) = (f.plan(RETRY).await, f.plan(RETRY).await);
    for id in [newer, known] {
        f.order(id, PlanOrder::Apply(PlanSettings::default())).await;
    }
    let sql = format!("UPDATE plans SET action = 'run.teleport' WHERE id = {newer}");
    f.raw.execute(&sql).await.expect("changed");
    let claimed = f.store.claim_plans(&claim_by("e1", 20)).await.expect("claimed");
    assert_eq!(claimed.iter().map(|plan| plan.id).collect::<Vec<_>>(), [known]);
    let listed = f.store.plans_page(PlanId(i64::MAX), 10).await.expect("read");
    assert_eq!(listed, claimed);
    assert!(f.store.plans_by_id(&[newer]).await.is_err(), "it is not shown as something else");
}

// PLN-3
pub async fn steps_claims_and_operators_at_once_change_each_unit_once(f: &Fixture) {
    let ids = f.dead_runs(60).await;
    let id = f.plan(RETRY).await;
    let lease = f.apply_plan(id).await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let store = Arc::clone(&f.store);
        tasks.push(tokio::spawn(async move {
            let mut counts = PlanCounts::default();
            loop {
                let step = store.step_plan(lease, &batch(7, &counts), at(21)).await;
                counts = step.expect("answered").expect("held").counts;
                if counts.rest() == 0 {
                    return;
                }
            }
        }));
    }
    let (store, some) = (Arc::clone(&f.store), ids[20..40].to_vec());
    tasks.push(tokio::spawn(async move {
        let by: Operator = operator(at(21));
        for id in some {
            store.retry_runs(&[id], &by).await.expect("answered");
        }
    }));
    let store = Arc::clone(&f.store);
    tasks.push(tokio::spawn(async move {
        for _ in 0..20 {
            store.claim_runs(&claim_of(3, at(22))).await.expect("claimed");
        }
    }));
    for task in tasks {
        task.await.expect("no panic");
    }
    let plan = f.plan_record(id).await;
    assert_eq!(plan.counts.changed + plan.counts.skipped, 60);
    let units = f.plan_units(id).await;
    for (run, unit) in ids.iter().zip(&units) {
        let told = f.told(Some(*run)).await;
        let retried: Vec<_> = told.iter().filter(|entry| entry.action == "run.retry").collect();
        assert_eq!(retried.len(), 1, "retried once by somebody");
        let by_plan = retried[0].details.contains("\"plan\"");
        assert_eq!(by_plan, unit.outcome == Some(PlanOutcome::Pending), "{unit:?}");
    }
}
