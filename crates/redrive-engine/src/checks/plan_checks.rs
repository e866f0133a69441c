//! Reads plans, the counts of their units and the journal entries that name them (PLN-3).

use std::collections::{BTreeSet, HashMap};

use redrive_core::PlanId;
use redrive_store::{
    JournalFilter, JournalRecord, PlanOutcome, PlanRecord, Result, Store, UnitKind, plan_unit_name,
};
use serde_json::Value;

use crate::checks::{
    checker::{Finding, MAX_REREADS, Report},
    ledger_reader::PAGE,
    plan_invariants::{ChangedUnits, check_kept_counts, check_plan_entries, check_plan_units},
};

pub(crate) async fn check_plans(store: &dyn Store, report: &mut Report) -> Result<()> {
    let mut before = PlanId(i64::MAX);
    loop {
        let page = store.plans_page(before, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        before = last.id;
        report.plans += page.len() as u64;
        report.add(check_entries(store, &page).await?);
        for plan in page {
            report.add(check_units(store, plan).await?);
        }
    }
}

/// Repeats the counts until the plan does not change meanwhile.
async fn check_units(store: &dyn Store, mut plan: PlanRecord) -> Result<Vec<Finding>> {
    for _ in 0..MAX_REREADS {
        let units = store.count_plan_units(plan.id).await?;
        let kept = store.plan_unit_counts(plan.id).await?;
        let Some(after) = store.plans_by_id(&[plan.id]).await?.pop() else { break };
        if after == plan {
            let mut findings = check_plan_units(&plan, &units);
            // An executor may have refused units in between, which does not change the plan.
            let differs = findings.is_empty() && kept != units;
            let is_stable = differs && store.count_plan_units(plan.id).await? == units;
            if is_stable && !is_pruned_in_part(store, &plan).await? {
                findings.extend(check_kept_counts(&plan, &kept, &units));
            }
            return Ok(findings);
        }
        plan = after;
    }
    Ok(Vec::new())
}

/// Counts entries in one walk over the journal for each action. A unit and its entry are written in one transaction with
/// the counts of the plan, so the entries are those of a plan that does not change meanwhile.
async fn check_entries(store: &dyn Store, plans: &[PlanRecord]) -> Result<Vec<Finding>> {
    let mut entries: HashMap<PlanId, ChangedUnits> = HashMap::new();
    let changed = plans.iter().filter(|plan| plan.counts.changed > 0);
    let actions: BTreeSet<&str> = changed.map(|plan| plan.action.name()).collect();
    for action in actions {
        let filter = JournalFilter { unit: None, action: Some(action.to_owned()) };
        let mut after = 0;
        loop {
            let page = store.journal_page(&filter, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            for record in &page {
                if let Some(plan) = named_plan(record) {
                    entries.entry(plan).or_default().add_entry(record.entry.unit.as_deref());
                }
            }
        }
    }
    let mut findings = Vec::new();
    for plan in plans {
        let entries = entries.get(&plan.id).copied().unwrap_or_default();
        let Some(finding) = check_plan_entries(plan, changed_units(store, plan).await?, entries)
        else {
            continue;
        };
        let unchanged = store.plans_by_id(&[plan.id]).await?.pop().as_ref() == Some(plan);
        if unchanged && !is_pruned_in_part(store, plan).await? {
            findings.push(finding);
        }
    }
    Ok(findings)
}

/// The units of its list that a plan changed.
async fn changed_units(store: &dyn Store, plan: &PlanRecord) -> Result<ChangedUnits> {
    let (mut units, mut after) = (ChangedUnits::default(), 0);
    // The journal names partitions by their keys, which the list does not have.
    if plan.action.kind() == UnitKind::Partition {
        return Ok(ChangedUnits { units: plan.counts.changed, ids: 0 });
    }
    while units.units < plan.counts.changed {
        let page = store.plan_units_page(plan.id, None, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.unit_id;
        let changed = page.iter().filter(|unit| unit.outcome.is_some_and(PlanOutcome::is_change));
        changed.for_each(|unit| units.add(Some(unit.unit_id)));
    }
    Ok(units)
}

/// A prune that was interrupted leaves a plan with a part of its units; the next one removes them.
async fn is_pruned_in_part(store: &dyn Store, plan: &PlanRecord) -> Result<bool> {
    let (unit, action) = (Some(plan_unit_name(plan.id)), Some("plan.prune".to_owned()));
    Ok(!store.journal_page(&JournalFilter { unit, action }, 0, 1).await?.is_empty())
}

fn named_plan(record: &JournalRecord) -> Option<PlanId> {
    let details: Value = serde_json::from_str(&record.entry.details).ok()?;
    details.get("plan")?.as_i64().map(PlanId)
}
