//! Rules of plans that a store may break, and that it is found out.

use jiff::Timestamp;
use redrive_core::{PlanBatch, PlanId, PlanStatus};
use redrive_store::{LeaseRef, PlanRecord, Result, Store};

use super::world::live;
use crate::simulator::mutants::{Mutant, Rule, SEEDS};

impl Mutant {
    pub(crate) async fn step_plan(
        &self,
        store: &dyn Store,
        lease: LeaseRef,
        batch: &PlanBatch,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        let (id, mut batch) = (lease.id, *batch);
        let plan = store.plans_by_id(&[PlanId(id)]).await?.pop();
        let status = plan.map(|plan| plan.status);
        match self.rule {
            Rule::PaceKept if batch.interval.as_nanos() > 0 => batch.units += 60,
            Rule::FrozenListKept => {
                let sql = "INSERT INTO plan_units (plan_id, unit_id, state, version)
                    SELECT ?1, id, 'error, given up', lease_epoch FROM runs
                    WHERE status = 'error' AND next_retry_at IS NULL
                        AND id > (SELECT last_unit FROM plans WHERE id = ?1)
                    ON CONFLICT DO NOTHING";
                self.execute(sql, [id]);
                let sql =
                    "UPDATE plans SET total = (SELECT count(*) FROM plan_units WHERE plan_id = ?1)
                    WHERE id = ?1";
                self.execute(sql, [id]);
            }
            Rule::FrozenStateGuards => {
                let sql = "UPDATE plan_units SET version = (SELECT lease_epoch FROM runs WHERE id = unit_id)
                    WHERE plan_id = ?1 AND outcome IS NULL AND unit_id IN (SELECT id FROM runs)";
                self.execute(sql, [id]);
            }
            Rule::PausedPlanWaits if status == Some(PlanStatus::Paused) => {
                self.execute("UPDATE plans SET status = 'running' WHERE id = ?1", [id]);
            }
            _ => {}
        }
        let stepped = store.step_plan(lease, &batch, at).await?;
        match self.rule {
            Rule::PausedPlanWaits if status == Some(PlanStatus::Paused) => {
                self.execute("UPDATE plans SET status = 'paused' WHERE id = ?1", [id]);
            }
            Rule::UnitChangedOnce => {
                let sql = "INSERT INTO journal (at, actor, action, unit, details)
                    SELECT at, actor, action, unit, details FROM journal
                    WHERE details ->> 'plan' = ?1 ORDER BY id DESC LIMIT 1";
                self.execute(sql, [id]);
            }
            _ => {}
        }
        Ok(stepped)
    }

    /// Answers about outcomes that are better than the truth.
    pub(crate) fn settled(&self, mut plan: PlanRecord) -> PlanRecord {
        let counts = &mut plan.counts;
        match self.rule {
            Rule::CanaryAwaited if self.strikes() => {
                counts.recovered += counts.pending;
                counts.pending = 0;
            }
            Rule::CanaryJudged => {
                counts.recovered += counts.failed();
                (counts.same_cause, counts.other_cause) = (0, 0);
            }
            _ => {}
        }
        plan
    }

    pub(crate) async fn undo_plan(
        &self,
        store: &dyn Store,
        lease: LeaseRef,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        if self.rule == Rule::StartedIsKept {
            // Takes running units from their workers.
            let sql = "UPDATE runs SET status = 'discovered', ready = 1, lease_owner = NULL, lease_until = NULL,
                lease_epoch = (SELECT version FROM plan_units WHERE plan_id = ?1 AND unit_id = id)
                WHERE status = 'processing'
                    AND id IN (SELECT unit_id FROM plan_units WHERE plan_id = ?1 AND outcome = 'pending')";
            self.execute(sql, [lease.id]);
        }
        store.undo_plan(lease, limit, at).await
    }
}

/// A store that breaks the rule is found out, and for what it does.
#[track_caller]
fn assert_found_out(rule: Rule, complaint: &str) {
    let complains = |seed: &u64| {
        live(*seed, Some(rule)).problems.iter().any(|problem| problem.contains(complaint))
    };
    let found = (1..=SEEDS).find(complains);
    assert!(found.is_some(), "{rule:?} was broken in {SEEDS} worlds, and nobody noticed");
}

// PLN-3
#[test]
fn a_store_that_changes_a_unit_twice_is_found_out() {
    assert_found_out(Rule::UnitChangedOnce, "twice");
    assert_found_out(Rule::UnitChangedOnce, "(plan-recorded)");
}

// PLN-3
#[test]
fn a_store_that_changes_a_unit_outside_of_the_list_is_found_out() {
    assert_found_out(Rule::FrozenListKept, "which it does not list");
}

// PLN-3
#[test]
fn a_store_that_changes_a_unit_that_has_changed_is_found_out() {
    assert_found_out(Rule::FrozenStateGuards, "which had changed meanwhile");
}

// PLN-2
#[test]
fn a_store_that_exceeds_the_pace_is_found_out() {
    assert_found_out(Rule::PaceKept, "units at");
}

// PLN-2
#[test]
fn a_store_that_does_not_wait_for_the_canary_is_found_out() {
    assert_found_out(Rule::CanaryAwaited, "before its canary had ended");
}

// PLN-2
#[test]
fn a_store_that_hides_the_failures_of_the_canary_is_found_out() {
    assert_found_out(Rule::CanaryJudged, "though its canary had failed");
}

// PLN-4
#[test]
fn a_store_that_goes_on_with_a_paused_plan_is_found_out() {
    assert_found_out(Rule::PausedPlanWaits, "while it was paused");
}

// PLN-4
#[test]
fn a_store_that_returns_what_has_started_is_found_out() {
    assert_found_out(Rule::StartedIsKept, "which had started");
}
