//! What claims and finishes meet at gates, written down with them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use redrive_core::{Class, GateStatus, RunId, RunStatus};
use redrive_store::{
    Categories, ClaimRequest, ClaimedRun, GateRecord, GateRule, GateRules, PageLimit, Result,
    RunCompletion, RunFinish, RunRecord, Selection, Store, Written,
};

use super::{
    mutants::{Mutant, Rule},
    plan::CATEGORIES,
};

/// What happened at a gate, or at one key of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GateSighting {
    pub(super) gate: String,
    pub(super) key: String,
    pub(super) before: Option<GateRecord>,
    pub(super) after: Option<GateRecord>,
    pub(super) deed: Deed,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Deed {
    Claimed {
        units: Vec<Taken>,
        until: Timestamp,
        /// On the wall clock.
        now: Timestamp,
        /// Runs whose leases have not ended behind the gate, whatever it knows of them, and how many it allows.
        held: usize,
        concurrency: Option<u32>,
    },
    /// A claim had room, and a unit was left that all of its gates would let through.
    LeftBehind(i64),
    /// The result of a run was written that the service had limited.
    RateLimited(i64),
}

/// A unit that a claim took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Taken {
    pub(super) run: i64,
    pub(super) epoch: i64,
}

type Rows = BTreeMap<(String, String), GateRecord>;

fn by_name(rows: Vec<GateRecord>) -> Rows {
    rows.into_iter().map(|row| ((row.gate.clone(), row.key.clone()), row)).collect()
}

fn name_of(rule: &GateRule, key: &str) -> (String, String) {
    (rule.name.clone(), rule.key(key).to_owned())
}

/// Makes a claim, and notes what it did at each of its gates.
pub(super) async fn claim(
    store: &dyn Store,
    request: &ClaimRequest,
    mutant: Option<&Mutant>,
) -> Result<(Vec<ClaimedRun>, Vec<GateSighting>)> {
    let made = match mutant.map(|mutant| mutant.rule) {
        Some(Rule::GateKept) => ClaimRequest { gates: GateRules::default(), ..request.clone() },
        Some(Rule::OpenServed) if mutant.is_some_and(|mutant| mutant.breaks(Rule::OpenServed)) => {
            let others = CATEGORIES.iter().filter(|name| **name != "fast");
            let categories = Categories::Only(others.map(|name| (*name).to_owned()).collect());
            ClaimRequest { categories, ..request.clone() }
        }
        _ => request.clone(),
    };
    let before = by_name(store.gates_page(None, false, ("", ""), 1_000).await?);
    let mut claimed = store.claim_runs(&made).await?;
    let after = by_name(store.gates_page(None, false, ("", ""), 1_000).await?);
    let all = PageLimit::without_data(1_000);
    let runs = store.runs_page(&Selection::default(), RunId(0), all).await?;
    let behind = |name: &(String, String)| -> Vec<&RunRecord> {
        let rule = request.gates.iter().find(|rule| rule.name == name.0);
        let is_behind = |run: &&RunRecord| {
            run.status == RunStatus::Processing
                && rule.is_some_and(|rule| rule.key(&run.category) == name.1)
        };
        runs.iter().filter(is_behind).collect()
    };
    let mut taken: BTreeMap<(String, String), Vec<Taken>> = BTreeMap::new();
    for run in &claimed {
        for rule in request.gates.iter() {
            let of_gate = taken.entry(name_of(rule, &run.category)).or_default();
            of_gate.push(Taken { run: run.id.0, epoch: run.epoch.0 });
        }
    }
    let mut sightings = Vec::new();
    for (name, units) in taken {
        let rule = request.gates.iter().find(|rule| rule.name == name.0);
        let live = |run: &&RunRecord| run.lease_until.is_some_and(|until| until > store.now());
        let deed = Deed::Claimed {
            units,
            until: request.lease_until,
            now: request.now,
            held: behind(&name).into_iter().filter(live).count(),
            concurrency: rule.and_then(|rule| rule.settings.concurrency()),
        };
        let (before, after) = (before.get(&name).cloned(), after.get(&name).cloned());
        sightings.push(GateSighting { before, after, deed, gate: name.0, key: name.1 });
    }
    let paused = store.paused_queues().await?;
    let has_room = claimed.len() < request.limit as usize;
    if has_room && !paused.iter().any(|paused| paused.queue == request.queue) {
        let allowed = |run: &&RunRecord| match &request.categories {
            Categories::All => true,
            Categories::Only(named) => named.contains(&run.category),
        };
        let waiting = runs.iter().filter(|run| run.ready && run.queue == request.queue);
        for run in waiting.filter(allowed) {
            let passes = |rule: &GateRule| {
                let name = name_of(rule, &run.category);
                would_pass(rule, after.get(&name), behind(&name).len(), request.now)
            };
            if request.gates.iter().all(passes) {
                let (gate, key) = (request.queue.clone(), run.category.clone());
                let deed = Deed::LeftBehind(run.id.0);
                sightings.push(GateSighting { gate, key, before: None, after: None, deed });
                break;
            }
        }
    }
    if mutant.is_some_and(|mutant| mutant.rule == Rule::RateKept) {
        claimed.iter_mut().for_each(|run| run.pass.start = None);
    }
    if mutant.is_some_and(|mutant| mutant.rule == Rule::PermitTold) {
        let latest = vec![Some(u64::MAX); request.gates.len()];
        claimed.iter_mut().for_each(|run| run.pass.epochs = latest.clone());
    }
    Ok((claimed, sightings))
}

/// Whether a gate would let one more unit through, for certain: `held` units run behind it.
fn would_pass(rule: &GateRule, row: Option<&GateRecord>, held: usize, now: Timestamp) -> bool {
    if rule.settings.rate().is_some() {
        return false;
    }
    let below = rule.settings.concurrency().is_none_or(|most| held < most as usize);
    let state = row.map(|row| &row.state);
    below
        && match state.map_or(GateStatus::Open, |state| state.status) {
            GateStatus::Open => true,
            GateStatus::Closed => {
                held == 0 && state.and_then(|it| it.closed_until).is_some_and(|until| now >= until)
            }
            GateStatus::Probing | GateStatus::Ramping => held == 0,
        }
}

/// What the gates of rate limited runs are like after their results were written.
pub(super) async fn finished(
    store: &dyn Store,
    finishes: &[RunFinish],
    written: &[Written],
) -> Result<Vec<GateSighting>> {
    let mut refused = Vec::new();
    for (finish, _) in finishes.iter().zip(written).filter(|(_, it)| **it == Written::Applied) {
        let RunCompletion::Failed { failure, .. } = &finish.completion else { continue };
        if let (Class::RateLimited { .. }, Some(passed)) = (failure.class(), &finish.gates) {
            let names = passed.rules.iter().map(|rule| name_of(rule, &passed.key));
            refused.extend(names.map(|name| (finish.id.0, name)));
        }
    }
    let names: Vec<(&str, &str)> =
        refused.iter().map(|(_, (gate, key))| (&**gate, &**key)).collect();
    let after = by_name(store.gate_rows(&names).await?);
    let sighting = |(run, name): (i64, (String, String))| GateSighting {
        before: None,
        after: after.get(&name).cloned(),
        deed: Deed::RateLimited(run),
        gate: name.0,
        key: name.1,
    };
    Ok(refused.into_iter().map(sighting).collect())
}
