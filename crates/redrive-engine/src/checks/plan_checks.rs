//! Reads plans, the counts of their units and the journal entries that name them (PLN-3).

use std::collections::{BTreeSet, HashMap};

use redrive_core::PlanId;
use redrive_store::{JournalFilter, JournalRecord, PlanRecord, Result, Store};
use serde_json::Value;

use crate::checks::{
    checker::{Finding, MAX_REREADS, Report},
    ledger_reader::PAGE,
    plan_invariants::{check_plan_entries, check_plan_units},
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
        let units = store.plan_unit_counts(plan.id).await?;
        let Some(after) = store.plans_by_id(&[plan.id]).await?.pop() else { break };
        if after == plan {
            return Ok(check_plan_units(&plan, &units));
        }
        plan = after;
    }
    Ok(Vec::new())
}

/// Counts entries in one walk over the journal for each action. A unit and its entry are written in one transaction with
/// the counts of the plan, so the entries are those of a plan that does not change meanwhile.
async fn check_entries(store: &dyn Store, plans: &[PlanRecord]) -> Result<Vec<Finding>> {
    let mut entries: HashMap<PlanId, u64> = HashMap::new();
    let changed = plans.iter().filter(|plan| plan.counts.changed > 0);
    let actions: BTreeSet<&str> = changed.map(|plan| plan.action.name()).collect();
    for action in actions {
        let filter = JournalFilter { unit: None, action: Some(action.to_owned()) };
        let mut after = 0;
        loop {
            let page = store.journal_page(&filter, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            for plan in page.iter().filter_map(named_plan) {
                *entries.entry(plan).or_default() += 1;
            }
        }
    }
    let entries = |plan: &PlanRecord| entries.get(&plan.id).copied().unwrap_or_default();
    let mut findings = Vec::new();
    for plan in plans {
        let Some(finding) = check_plan_entries(plan, entries(plan)) else { continue };
        if store.plans_by_id(&[plan.id]).await?.pop().as_ref() == Some(plan) {
            findings.push(finding);
        }
    }
    Ok(findings)
}

fn named_plan(record: &JournalRecord) -> Option<PlanId> {
    let details: Value = serde_json::from_str(&record.entry.details).ok()?;
    details.get("plan")?.as_i64().map(PlanId)
}
