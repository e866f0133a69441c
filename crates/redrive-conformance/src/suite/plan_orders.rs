//! Orders to plans: what is refused, and what an undo returns.

use std::time::Duration;

use redrive_core::{GiveUpReason, InvalidPlanSettings, PlanSettings, PlanStatus, RunState};
use redrive_store::{
    LeaseRef, LeaseRelease, Leased, NEVER_STARTED, NewPlan, Operator, PlanAction, PlanChange,
    PlanEnd, PlanOrder, PlanOutcome, RunAction, RunRecord, WorkerId, Written,
};

use super::{
    Fixture,
    plans::RETRY,
    samples::{at, claim_of, give_up, operator, retry, run},
};

// PLN-4
pub async fn a_plan_is_ordered_only_from_where_it_may(f: &Fixture) {
    f.dead_runs(2).await;
    let id = f.plan(RETRY).await;
    assert_eq!(f.order(id, PlanOrder::Pause).await, PlanChange::Refused(PlanStatus::Draft));
    let settings = PlanSettings::new(Some(1), Some("50/s".parse().expect("a pace")), None, None);
    let apply = PlanOrder::Apply(settings.expect("settings"));
    assert_eq!(f.order(id, apply).await, PlanChange::Done(PlanStatus::Draft));
    assert_eq!(f.order(id, apply).await, PlanChange::Refused(PlanStatus::Running));
    let plan = f.plan_record(id).await;
    assert_eq!((plan.started_at, plan.ended_at), (Some(at(20)), None));
    assert_eq!(plan.settings.to_string(), "canary 1, pace 50/s, abort-if 20%");
    let lease = f.claim_plan("e1", 20).await.expect("claimed").lease();

    assert_eq!(f.order(id, PlanOrder::Pause).await, PlanChange::Done(PlanStatus::Running));
    let paused = f.step(lease, 10, 21).await.expect("held");
    assert_eq!((paused.status, paused.counts.changed), (PlanStatus::Paused, 0));
    assert_eq!(paused.stop_reason.as_deref(), Some("paused by ada: looks wrong"));
    let ended = f.store.end_plan(lease, &PlanEnd::Complete, at(21)).await.expect("answered");
    assert_eq!(ended.map(|plan| plan.status), Some(PlanStatus::Paused));
    assert_eq!(f.order(id, PlanOrder::Resume).await, PlanChange::Done(PlanStatus::Paused));
    assert_eq!(f.step(lease, 1, 22).await.expect("held").counts.changed, 1);

    assert_eq!(f.order(id, PlanOrder::Abort).await, PlanChange::Done(PlanStatus::Running));
    let aborted = f.step(lease, 10, 23).await.expect("held");
    assert_eq!((aborted.status, aborted.counts.changed), (PlanStatus::Aborted, 1));
    assert_eq!(aborted.stop_reason.as_deref(), Some("aborted by ada: looks wrong"));
    assert_eq!(aborted.ended_at, Some(at(20)));
    let told: Vec<String> = f.told(None).await.into_iter().map(|entry| entry.action).collect();
    let told: Vec<&str> = told.iter().filter_map(|action| action.strip_prefix("plan.")).collect();
    assert_eq!(told, ["create", "apply", "pause", "resume", "abort"]);
}

// PLN-4
pub async fn an_undo_returns_units_that_nobody_has_touched_since(f: &Fixture) {
    let ids = f.dead_runs(5).await;
    // One waits for its retry, one was cancelled.
    let waits = f.submit(&[run("q", "", at(3))], at(3)).await[0];
    let claimed = f.claim_one(at(4)).await;
    f.end(&claimed, at(5), retry(at(5), Duration::from_secs(600), true)).await;
    f.store.cancel_runs(&ids[4..], &operator(at(6))).await.expect("cancelled");
    let all = [&ids[..], &[waits]].concat();
    let before = f.store.runs_by_id(&all).await.expect("read");
    let id = f.plan(RETRY).await;
    let lease = f.apply_plan(id).await;
    assert_eq!(f.step(lease, 100, 21).await.expect("stepped").counts.pending, 6);

    // A worker takes the first, an operator cancels and retries the second, somebody notes something about the third.
    let started = f.claim_one(at(30)).await;
    assert_eq!(started.id, ids[0]);
    f.store.cancel_runs(&ids[1..2], &operator(at(31))).await.expect("cancelled");
    f.store.retry_runs(&ids[1..2], &operator(at(32))).await.expect("retried");
    let mut note = super::samples::distinct_entry(&format!("run:{}", ids[2]), at(33));
    note.action = "run.note".to_owned();
    f.store.append_journal(&[note]).await.expect("noted");

    assert_eq!(f.order(id, PlanOrder::Undo).await, PlanChange::Done(PlanStatus::Running));
    assert_eq!(f.order(id, PlanOrder::Undo).await, PlanChange::Refused(PlanStatus::Undone));
    let stepped = f.step(lease, 100, 40).await.expect("held");
    assert_eq!(stepped.status, PlanStatus::Undone);
    let mut pages = 0;
    while f.plan_record(id).await.undo_unit.is_some() {
        f.store.undo_plan(lease, 2, at(41)).await.expect("undone").expect("held");
        pages += 1;
    }
    assert!(pages >= 3, "{pages} pages");

    let after = f.store.runs_by_id(&all).await.expect("read");
    for place in 2..6 {
        let expected = RunRecord { ready: false, ..before[place].clone() };
        assert_eq!(after[place], expected, "as it was before the plan");
    }
    assert_eq!(after[0].state(), RunState::Processing);
    assert_eq!(after[1].state(), RunState::Discovered);
    let plan = f.plan_record(id).await;
    assert_eq!((plan.undone, plan.counts.pending, plan.counts.changed), (4, 2, 6));
    let told = f.told(Some(ids[3])).await.pop().expect("told");
    assert_eq!((told.action.as_str(), told.at), ("run.undo", at(41)));
    assert!(told.details.contains(&format!("\"plan\":{id}")), "{}", told.details);

    assert_eq!(f.claim(&claim_of(10, at(42))).await.len(), 1, "only the operator's is ready");
    let due = f.claim_one(at(700)).await;
    assert_eq!(due.id, waits, "the retry is due as it was");
    // What was returned can be retried again.
    let changes = f.store.retry_runs(&ids[3..4], &operator(at(800))).await.expect("retried");
    assert_eq!(changes, [redrive_store::RunChange::Done(RunState::GivenUp)]);
}

// PLN-4
pub async fn an_undo_returns_units_that_were_claimed_and_released_before_they_started(f: &Fixture) {
    let ids = f.dead_runs(NEVER_STARTED.len() + 1).await;
    let started = ids[NEVER_STARTED.len()];
    let before = f.store.runs_by_id(&ids).await.expect("read");
    let id = f.plan(RETRY).await;
    let lease = f.apply_plan(id).await;
    f.step(lease, 100, 21).await.expect("stepped");
    // The last was started before a worker stopped, and then claimed and released once more.
    for (second, whys) in
        [[&NEVER_STARTED[..], &["shutdown"]], [&NEVER_STARTED[..], &["gate_closed"]]]
            .into_iter()
            .enumerate()
    {
        let mut claimed = f.claim(&claim_of(10, at(30 + second as i64))).await;
        claimed.sort_by_key(|run| run.id);
        assert_eq!(claimed.len(), ids.len());
        for (run, why) in claimed.iter().zip(whys.concat()) {
            let lease = LeaseRef { id: run.id.0, epoch: run.epoch };
            let back = LeaseRelease::each(&[lease], &WorkerId("w1".to_owned()), why);
            let back = f.store.release_leases(Leased::Run, &back, at(35)).await;
            assert_eq!(back.expect("answered"), [Written::Applied]);
        }
    }
    assert_eq!(f.order(id, PlanOrder::Undo).await, PlanChange::Done(PlanStatus::Running));
    f.store.undo_plan(lease, 10, at(41)).await.expect("undone").expect("held");
    let after = f.store.runs_by_id(&ids).await.expect("read");
    for (before, after) in before.iter().zip(&after).take(NEVER_STARTED.len()) {
        let expected = RunRecord { ready: false, lease_epoch: after.lease_epoch, ..before.clone() };
        assert_eq!(*after, expected, "as it was before the plan");
    }
    assert_eq!(f.states(&[started]).await, [RunState::Discovered], "it had been started");
    let plan = f.plan_record(id).await;
    assert_eq!((plan.undone, plan.counts.pending), (NEVER_STARTED.len() as u64, 1));
}

// PLN-3, PLN-4
pub async fn a_plan_that_tries_nothing_again_has_nothing_to_watch_or_undo(f: &Fixture) {
    let ids = f.dead_runs(2).await;
    let id = f.plan(PlanAction::Run(RunAction::Cancel)).await;
    let lease = f.apply_plan(id).await;
    let plan = f.step(lease, 10, 21).await.expect("stepped");
    assert_eq!((plan.counts.changed, plan.counts.pending), (2, 0));
    assert_eq!(f.outcomes(id).await, [Some(PlanOutcome::Applied); 2]);
    assert_eq!(f.order(id, PlanOrder::Undo).await, PlanChange::Done(PlanStatus::Running));
    let plan = f.plan_record(id).await;
    assert_eq!((plan.undo_unit, plan.has_work()), (None, false));
    assert_eq!(f.states(&ids).await, [RunState::Cancelled; 2]);
    let id = f.plan(PlanAction::Run(RunAction::Cancel)).await;
    let canary = PlanSettings::new(Some(1), None, None, None).expect("settings");
    let refused = f.order(id, PlanOrder::Apply(canary)).await;
    let PlanChange::Invalid(why) = &refused else { panic!("{refused:?}") };
    assert!(why.to_string().starts_with("run.cancel tries no unit again"), "{why}");
    assert_eq!(f.plan_record(id).await.status, PlanStatus::Draft);
}

// PLN-2
pub async fn a_draft_keeps_its_settings_and_a_canary_is_smaller_than_its_plan(f: &Fixture) {
    f.dead_runs(11).await;
    let settings = PlanSettings::new(Some(2), Some("50/s".parse().expect("a pace")), None, None);
    let settings = settings.expect("settings");
    let selection = "{}".to_owned();
    let plan = NewPlan { action: RETRY, selection, settings, by: operator(at(10)) };
    let id = f.store.create_plan(&plan).await.expect("created");
    assert_eq!(f.plan_record(id).await.settings, settings);

    let id = f.plan(RETRY).await;
    let canary = |units| PlanSettings::new(Some(units), None, None, None).expect("settings");
    let too_large = InvalidPlanSettings::CanaryTooLarge { canary: 11, units: 11 };
    let refused = f.order(id, PlanOrder::Apply(canary(11))).await;
    assert_eq!(refused, PlanChange::Invalid(too_large));
    assert_eq!(f.plan_record(id).await.status, PlanStatus::Draft);
    let applied = f.order(id, PlanOrder::Apply(canary(10))).await;
    assert_eq!(applied, PlanChange::Done(PlanStatus::Draft));
}

// PLN-4
pub async fn an_undo_without_pending_units_is_refused_and_keeps_the_status(f: &Fixture) {
    f.dead_runs(1).await;
    let id = f.plan(RETRY).await;
    assert_eq!(f.order(id, PlanOrder::Undo).await, PlanChange::Refused(PlanStatus::Draft));
    let lease = f.apply_plan(id).await;
    f.step(lease, 10, 21).await.expect("stepped");
    f.store.end_plan(lease, &PlanEnd::Complete, at(22)).await.expect("answered");
    let claimed = f.claim_one(at(30)).await;
    f.end(&claimed, at(31), give_up(GiveUpReason::Final)).await;
    let done = f.settle(lease).await;
    let nothing = PlanChange::NothingToReturn(PlanStatus::Done);
    assert_eq!(f.order(id, PlanOrder::Undo).await, nothing);
    assert_eq!(f.plan_record(id).await, done);
}

// PLN-4
pub async fn a_resume_keeps_the_reason_and_an_undo_has_its_own(f: &Fixture) {
    let ids = f.dead_runs(3).await;
    let id = f.plan(RETRY).await;
    let by =
        |reason: Option<&str>| Operator { reason: reason.map(str::to_owned), ..operator(at(20)) };
    let order = async |order, reason| {
        let done = f.store.change_plan(id, &order, &by(reason)).await.expect("answered");
        assert!(matches!(done, PlanChange::Done(_)), "{done:?}");
    };
    order(PlanOrder::Apply(PlanSettings::default()), Some("mended")).await;
    let lease = f.claim_plan("e1", 20).await.expect("claimed").lease();
    f.step(lease, 1, 21).await.expect("stepped");
    order(PlanOrder::Pause, None).await;
    order(PlanOrder::Resume, None).await;
    f.step(lease, 1, 22).await.expect("stepped");
    let told = f.told(Some(ids[1])).await.pop().expect("told");
    assert!(told.details.contains("\"reason\":\"mended\""), "{}", told.details);
    assert_eq!(f.plan_record(id).await.given_reason(), Some("mended"));

    order(PlanOrder::Undo, None).await;
    f.store.undo_plan(lease, 10, at(23)).await.expect("undone").expect("held");
    let told = f.told(Some(ids[1])).await.pop().expect("told");
    assert_eq!(told.action, "run.undo");
    assert!(told.details.contains("\"reason\":null"), "{}", told.details);
}

// PLN-4
pub async fn plans_that_run_are_listed_whatever_ended_since(f: &Fixture) {
    f.dead_runs(2).await;
    let (running, paused) = (f.plan(RETRY).await, f.plan(RETRY).await);
    let apply = PlanOrder::Apply(PlanSettings::default());
    for plan in [running, paused] {
        assert_eq!(f.order(plan, apply).await, PlanChange::Done(PlanStatus::Draft));
    }
    assert_eq!(f.order(paused, PlanOrder::Pause).await, PlanChange::Done(PlanStatus::Running));
    for order in [PlanOrder::Abort, PlanOrder::Abort, PlanOrder::Abort] {
        let later = f.plan(RETRY).await;
        f.order(later, order).await;
    }
    f.plan(RETRY).await;
    let live = async |limit| f.store.live_plans(limit).await.expect("read");
    let ids: Vec<_> = live(10).await.iter().map(|plan| plan.id).collect();
    assert_eq!(ids, [paused, running]);
    assert_eq!(live(1).await.len(), 1);
}
