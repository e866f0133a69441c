//! What must hold for a plan, as a pure function of its row, the counts of its units and its journal entries.

use redrive_core::PlanStatus;
use redrive_store::{PlanOutcome, PlanRecord, PlanUnitCount, plan_unit_name};

use crate::checks::checker::{Finding, Invariant};

/// Compares the counts of a plan with its units, and its status with the units that it has not come to.
pub(crate) fn check_plan_units(plan: &PlanRecord, units: &[PlanUnitCount]) -> Vec<Finding> {
    let problems = [counts(plan, units), units_left(plan, units)];
    let finding = |problem| finding(plan, Invariant::Counts, problem);
    problems.into_iter().flatten().map(finding).collect()
}

/// Compares the units that a plan changed with the journal entries that name the plan.
pub(crate) fn check_plan_entries(plan: &PlanRecord, entries: u64) -> Option<Finding> {
    let changed = plan.counts.changed;
    (changed != entries).then(|| {
        let problem = format!(
            "the plan changed {changed} units, but the journal has {entries} {} entries that name the plan",
            plan.action.name()
        );
        finding(plan, Invariant::PlanRecorded, problem)
    })
}

fn finding(plan: &PlanRecord, invariant: Invariant, problem: String) -> Finding {
    Finding { invariant, unit: plan_unit_name(plan.id), problem }
}

fn counts(plan: &PlanRecord, units: &[PlanUnitCount]) -> Option<String> {
    let total: u64 = units.iter().map(|alike| alike.units).sum();
    let skipped = with_outcome(units, Some(PlanOutcome::Skipped));
    let changed = total.saturating_sub(skipped).saturating_sub(with_outcome(units, None));
    let counts = &plan.counts;
    let outcomes = [
        (PlanOutcome::Pending, counts.pending),
        (PlanOutcome::Recovered, counts.recovered),
        (PlanOutcome::SameCause, counts.same_cause),
        (PlanOutcome::OtherCause, counts.other_cause),
        (PlanOutcome::Superseded, plan.superseded),
        (PlanOutcome::Undone, plan.undone),
    ];
    let outcomes = outcomes
        .map(|(outcome, stored)| (outcome.name(), stored, with_outcome(units, Some(outcome))));
    let pairs = [
        ("total", counts.total, total),
        ("changed", counts.changed, changed),
        ("skipped", counts.skipped, skipped),
    ];
    let wrong = pairs.into_iter().chain(outcomes).find(|(_, stored, actual)| stored != actual);
    wrong.map(|(name, stored, actual)| {
        format!("{name} is {stored}, but counting the units gives {actual}")
    })
}

fn units_left(plan: &PlanRecord, units: &[PlanUnitCount]) -> Option<String> {
    let left = with_outcome(units, None);
    (plan.status == PlanStatus::Done && left > 0)
        .then(|| format!("the plan is done, but {left} units were neither changed nor skipped"))
}

fn with_outcome(units: &[PlanUnitCount], outcome: Option<PlanOutcome>) -> u64 {
    units.iter().filter(|alike| alike.outcome == outcome).map(|alike| alike.units).sum()
}
