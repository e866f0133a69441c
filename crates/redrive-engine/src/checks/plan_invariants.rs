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

/// Compares the counts that are kept with the units. A draft that is being discarded has lost some units.
pub(crate) fn check_kept_counts(
    plan: &PlanRecord,
    kept: &[PlanUnitCount],
    units: &[PlanUnitCount],
) -> Option<Finding> {
    let is_discarded = plan.status == PlanStatus::Draft && plan.frozen_at.is_none();
    let wrong = kept.iter().find(|alike| !units.contains(alike));
    let wrong = wrong.or_else(|| units.iter().find(|alike| !kept.contains(alike)));
    let problem = |alike: &PlanUnitCount| {
        let PlanUnitCount { state, outcome, units, .. } = alike;
        let outcome = outcome.map_or("no outcome", PlanOutcome::name);
        format!(
            "the counts that are kept differ from the units: {units} of state {state} and {outcome}"
        )
    };
    wrong.filter(|_| !is_discarded).map(|alike| finding(plan, Invariant::Counts, problem(alike)))
}

/// Units in constant memory: how many, and a sum that tells which. It differs if a unit was changed twice and another one
/// has no entry, or if a changed unit is not in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ChangedUnits {
    pub(crate) units: u64,
    pub(crate) ids: u64,
}

impl ChangedUnits {
    pub(crate) fn add(&mut self, id: Option<i64>) {
        self.units += 1;
        // Spreads the ids, so that a few wrong ones do not have the sum of the right ones.
        let mixed = |id: i64| (id as u64 ^ 0x9e37_79b9).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.ids = self.ids.wrapping_add(id.map_or(0, |id| mixed(id) ^ (mixed(id) >> 29)));
    }

    /// A unit of the journal, such as `run:7` or `sample:7/grind`. The key of a partition says nothing about its id.
    pub(crate) fn add_entry(&mut self, unit: Option<&str>) {
        let id = unit.and_then(|unit| {
            let (_, name) = unit.split_once(':').filter(|(kind, _)| *kind != "partition")?;
            name.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        });
        self.add(id);
    }
}

/// Compares the units that a plan changed with the journal entries that name the plan.
pub(crate) fn check_plan_entries(
    plan: &PlanRecord,
    changed: ChangedUnits,
    entries: ChangedUnits,
) -> Option<Finding> {
    let action = plan.action.name();
    let problem = if plan.counts.changed != entries.units {
        let (changed, entries) = (plan.counts.changed, entries.units);
        format!(
            "the plan changed {changed} units, but the journal has {entries} {action} entries that name the plan"
        )
    } else if changed.units == entries.units && changed.ids != entries.ids {
        format!("the journal's {action} entries that name the plan are about other units")
    } else {
        return None;
    };
    Some(finding(plan, Invariant::PlanRecorded, problem))
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
