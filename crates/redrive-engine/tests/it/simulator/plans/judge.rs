//! What must be true of plans, judged by what the store did and when.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use redrive_core::{PlanId, PlanStatus};
use redrive_store::{JournalFilter, MAX_PAGE, PlanRecord, Store};
use serde_json::Value;

use super::news::{BeforeStep, ChangedRun, PlanNews, ReturnedRun};
use crate::simulator::log::{Event, What};

/// The frozen list of a plan.
type List = BTreeMap<i64, (String, i64)>;

/// Says what is wrong.
pub(super) async fn judge(store: &dyn Store, events: &[Event]) -> Vec<String> {
    let plans = store.plans_page(PlanId(i64::MAX), MAX_PAGE).await.unwrap();
    let mut problems = changed_once(store).await;
    for plan in &plans {
        let news: Vec<(Duration, &PlanNews)> =
            events.iter().filter_map(|event| news_of(plan, event)).collect();
        let list = news.iter().find_map(|(_, news)| match news {
            PlanNews::Frozen { units, .. } => Some(units.clone()),
            _ => None,
        });
        let list = list.unwrap_or_default();
        let mut steps = Vec::new();
        for (at, news) in news {
            match news {
                PlanNews::Frozen { .. } => {}
                PlanNews::Stepped { before, changed, .. } => {
                    steps.push((at, changed.len() as u64));
                    problems.extend(judge_step(plan, &list, before, changed));
                }
                PlanNews::Returned { runs, .. } => {
                    problems.extend(runs.iter().filter_map(|run| judge_return(plan, &list, run)));
                }
            }
        }
        problems.extend(judge_pace(plan, &steps));
        if plan.has_work() || (plan.status == PlanStatus::Done && plan.counts.rest() > 0) {
            problems.push(format!("plan {} has not come to its end: {plan:?}", plan.id));
        }
    }
    problems
}

fn news_of<'a>(plan: &PlanRecord, event: &'a Event) -> Option<(Duration, &'a PlanNews)> {
    let What::Plan(news) = &event.what else { return None };
    let of = match news {
        PlanNews::Frozen { plan, .. }
        | PlanNews::Stepped { plan, .. }
        | PlanNews::Returned { plan, .. } => plan,
    };
    (*of == plan.id).then_some((event.at, news))
}

/// A plan changes each unit at most once, as the journal tells.
async fn changed_once(store: &dyn Store) -> Vec<String> {
    let journal = store.journal_page(&JournalFilter::default(), 0, MAX_PAGE).await.unwrap();
    assert!(journal.len() < MAX_PAGE as usize, "{} entries may not be all", journal.len());
    let (mut changes, mut problems) = (BTreeSet::new(), Vec::new());
    for record in &journal {
        let (entry, Some(unit)) = (&record.entry, &record.entry.unit) else { continue };
        let details: Value = serde_json::from_str(&entry.details).unwrap();
        let is_change = entry.action == "run.retry" || entry.action == "run.cancel";
        if let Some(plan) = details.get("plan").and_then(Value::as_i64)
            && is_change
            && !changes.insert((plan, unit.clone()))
        {
            problems.push(format!("plan {plan} changed {unit} twice"));
        }
    }
    problems
}

fn judge_step(
    plan: &PlanRecord,
    list: &List,
    before: &BeforeStep,
    changed: &[ChangedRun],
) -> Vec<String> {
    let (id, mut problems) = (plan.id, Vec::new());
    if before.status != "running" {
        problems.push(format!("plan {id} changed units while it was {}", before.status));
    }
    for run in changed {
        match list.get(&run.run) {
            None => {
                problems.push(format!("plan {id} changed run {}, which it does not list", run.run))
            }
            Some((state, version)) if (state, version) != (&run.state, &run.version) => {
                problems.push(format!(
                    "plan {id} changed run {}, which had changed meanwhile",
                    run.run
                ));
            }
            Some(_) => {}
        }
    }
    let tried = before.pending + before.ended;
    if let Some(canary) = plan.settings.canary()
        && tried + changed.len() as u64 > canary
        && tried <= canary
    {
        if before.ended < canary {
            problems.push(format!("plan {id} changed the rest before its canary had ended"));
        }
        let reached =
            plan.settings.abort_if().is_some_and(|it| it.is_reached(before.failed, before.ended));
        if reached {
            problems.push(format!("plan {id} changed the rest though its canary had failed"));
        }
    }
    problems
}

fn judge_return(plan: &PlanRecord, list: &List, run: &ReturnedRun) -> Option<String> {
    let (id, ReturnedRun { before, after, is_untouched }) = (plan.id, run);
    let frozen = list.get(&before.run);
    let is_waiting = before.state == "discovered"
        && frozen.is_some_and(|(_, version)| *version == before.version);
    if !is_waiting || !is_untouched {
        return Some(format!(
            "the undo of plan {id} touched run {}, which had started",
            before.run
        ));
    }
    let is_returned = frozen.is_some_and(|(state, _)| state == after);
    (!is_returned).then(|| format!("the undo of plan {id} left run {} {after}", before.run))
}

/// No window of the pace's period has more units than the pace allows.
fn judge_pace(plan: &PlanRecord, steps: &[(Duration, u64)]) -> Option<String> {
    let pace = plan.settings.pace()?;
    steps.iter().enumerate().find_map(|(place, (from, _))| {
        let window = steps[place..].iter().take_while(|(at, _)| *at < *from + pace.period());
        let units: u64 = window.map(|(_, units)| units).sum();
        (units > u64::from(pace.units()))
            .then(|| format!("plan {} changed {units} units at {pace} from {from:?}", plan.id))
    })
}
