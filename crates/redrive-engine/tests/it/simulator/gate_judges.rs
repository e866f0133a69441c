//! What must be true at gates, judged from outside: by what was claimed, started and ended, not by what the gates noted of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::{GateStatus, Rate, RunState};
use redrive_store::{GateRecord, GateRules, Leased, RunChange, Written};

use super::{
    gate_sightings::{Deed, GateSighting, Taken},
    lived::Lived,
    log::{Event, What},
};

type Name = (String, String);

/// A run that a worker claimed behind a gate.
type Ahead = (Name, String, i64);

/// What is wrong with what happened at gates.
pub(super) fn judge(lived: &Lived) -> Vec<String> {
    let sightings = lived.events.iter().filter_map(sighting);
    let mut problems: Vec<String> = sightings.filter_map(problem).collect();
    problems.extend(under_way(lived));
    problems.extend(rates(lived));
    problems.extend(started_in_spite(lived));
    problems
}

fn sighting(event: &Event) -> Option<&GateSighting> {
    match &event.what {
        What::AtGate(sighting) => Some(&**sighting),
        _ => None,
    }
}

fn rules(lived: &Lived) -> &GateRules {
    &lived.plan.queues[0].gates
}

/// The gates and keys of a run.
fn names_of(lived: &Lived, run: i64) -> Vec<Name> {
    let category = lived.runs.iter().find(|it| it.id.0 == run).map(|it| it.category.clone());
    let category = category.unwrap_or_default();
    let rules = rules(lived).iter();
    rules.map(|rule| (rule.name.clone(), rule.key(&category).to_owned())).collect()
}

/// No claim takes a unit behind a closed gate, no more run than are allowed, a refusal closes the gate, and no unit is left
/// that may run.
fn problem(sighting: &GateSighting) -> Option<String> {
    let GateSighting { gate, key, before, after, deed } = sighting;
    let name = format!("gate {gate}/{key}");
    match deed {
        Deed::RateLimited(_) => {
            let is_open = after.as_ref().is_none_or(GateRecord::is_open);
            is_open.then(|| format!("{name} stayed open after a refusal"))
        }
        Deed::LeftBehind(run) => Some(format!("run {run} was left behind by a claim of {name}")),
        Deed::Claimed { units, now, held, concurrency, .. } => {
            let state = before.as_ref().map(|row| &row.state);
            if let Some(state) = state.filter(|state| state.status == GateStatus::Closed) {
                let over = state.closed_until.is_some_and(|until| *now >= until);
                let set_back =
                    state.closed_at.is_some_and(|at| *now < at - Duration::from_secs(60));
                if units.len() > usize::from(over || set_back) {
                    let count = units.len();
                    return Some(format!("{count} were taken behind {name}, which was closed"));
                }
            }
            let over = concurrency.is_some_and(|most| *held > most as usize);
            over.then(|| format!("{held} units run at once behind {name}"))
        }
    }
}

/// A unit that was let through a gate that is not open.
struct LetThrough {
    gate_epoch: u64,
    until: Timestamp,
}

/// One unit probes, and a step has as many as it says; whatever became of their workers, until their leases end.
fn under_way(lived: &Lived) -> Vec<String> {
    let mut problems = Vec::new();
    let mut units: BTreeMap<Name, BTreeMap<(i64, i64), LetThrough>> = BTreeMap::new();
    for event in &lived.events {
        let mut end = |ended: &dyn Fn(&(i64, i64)) -> bool| {
            units.values_mut().for_each(|units| units.retain(|unit, _| !ended(unit)));
        };
        match &event.what {
            What::Finished { run, epoch, written: Written::Applied, .. } => {
                end(&|unit| *unit == (*run, *epoch));
            }
            What::HandedBack { lease, written: Written::Applied } if lease.kind == Leased::Run => {
                end(&|unit| *unit == (lease.id, lease.epoch));
            }
            What::Asked { run, change: RunChange::Done(RunState::Processing), .. } => {
                end(&|unit| unit.0 == *run);
            }
            What::Renewed { lease, until, written: Written::Applied }
                if lease.kind == Leased::Run =>
            {
                let renewed =
                    units.values_mut().filter_map(|it| it.get_mut(&(lease.id, lease.epoch)));
                renewed.for_each(|unit| unit.until = unit.until.max(*until));
            }
            What::AtGate(sighting) => {
                let Deed::Claimed { units: claimed, until, .. } = &sighting.deed else { continue };
                let Some(state) = sighting.after.as_ref().map(|row| &row.state) else { continue };
                let most = match state.status {
                    GateStatus::Open | GateStatus::Closed => continue,
                    GateStatus::Probing => 1,
                    GateStatus::Ramping => state.width as usize,
                };
                let name = (sighting.gate.clone(), sighting.key.clone());
                let (of_gate, gate_epoch) = (units.entry(name).or_default(), state.epoch);
                let let_through = |unit: &Taken| {
                    ((unit.run, unit.epoch), LetThrough { gate_epoch, until: *until })
                };
                of_gate.extend(claimed.iter().map(let_through));
                let now = lived.clock.lease_at(event.at);
                let live =
                    of_gate.values().filter(|it| it.gate_epoch == gate_epoch && it.until > now);
                let count = live.count();
                if count > most {
                    let (gate, key, status) = (&sighting.gate, &sighting.key, state.status);
                    problems.push(format!(
                        "{count} units were let through gate {gate}/{key} at once, {status}, of {most}"
                    ));
                }
            }
            _ => {}
        }
    }
    problems
}

/// No period has more starts on all hosts than the rate, wherever it begins.
fn rates(lived: &Lived) -> Vec<String> {
    let rates =
        rules(lived).iter().filter_map(|rule| Some((rule.name.clone(), rule.settings.rate()?)));
    let rates: BTreeMap<String, Rate> = rates.collect();
    let mut starts: BTreeMap<Name, Vec<Duration>> = BTreeMap::new();
    for event in &lived.events {
        let What::Began { run, .. } = event.what else { continue };
        for name in names_of(lived, run).into_iter().filter(|(gate, _)| rates.contains_key(gate)) {
            starts.entry(name).or_default().push(event.at);
        }
    }
    let mut problems = Vec::new();
    for ((gate, key), starts) in &starts {
        let rate = rates[gate];
        let too_close = |pair: &[Duration]| pair[pair.len() - 1] - pair[0] < rate.period();
        let count = rate.units() as usize + 1;
        if let Some(window) = starts.windows(count).find(|window| too_close(window)) {
            let at = window[0];
            problems
                .push(format!("{count} starts within a period from {at:?} at gate {gate}/{key}"));
        }
    }
    problems
}

/// A worker that was refused starts none of the units that it had claimed before, until the gate is open again.
fn started_in_spite(lived: &Lived) -> Vec<String> {
    let mut problems = Vec::new();
    // Units that each worker claimed.
    let mut ahead: BTreeSet<Ahead> = BTreeSet::new();
    // What a worker had claimed ahead when its handler had handled a run, and the runs that are handled.
    let mut known: BTreeMap<(String, i64), BTreeSet<Ahead>> = BTreeMap::new();
    let mut under_way: BTreeMap<usize, i64> = BTreeMap::new();
    // Those that must not start any more.
    let mut kept_back: BTreeSet<Ahead> = BTreeSet::new();
    for event in &lived.events {
        match &event.what {
            What::AtGate(sighting) => {
                let name = (sighting.gate.clone(), sighting.key.clone());
                match &sighting.deed {
                    Deed::Claimed { units, .. } => {
                        let is_open =
                            |row: &Option<GateRecord>| row.as_ref().is_none_or(GateRecord::is_open);
                        if is_open(&sighting.before) || is_open(&sighting.after) {
                            kept_back.retain(|(gate, ..)| *gate != name);
                        }
                        for taken in units {
                            let unit = (name.clone(), event.who.clone(), taken.run);
                            kept_back.remove(&unit);
                            ahead.insert(unit);
                        }
                    }
                    Deed::RateLimited(run) => {
                        let refused = known.get(&(event.who.clone(), *run)).cloned();
                        let of_gate =
                            refused.into_iter().flatten().filter(|(gate, ..)| *gate == name);
                        kept_back.extend(of_gate.filter(|unit| ahead.contains(unit)));
                    }
                    Deed::LeftBehind(_) => {}
                }
            }
            What::Ended { execution, .. } => {
                let Some(run) = under_way.remove(execution) else { continue };
                let own = ahead.iter().filter(|(_, who, _)| *who == event.who);
                known.insert((event.who.clone(), run), own.cloned().collect());
            }
            What::Began { execution, run, .. } => {
                under_way.insert(*execution, *run);
                for name in names_of(lived, *run) {
                    let unit = (name, event.who.clone(), *run);
                    ahead.remove(&unit);
                    if kept_back.remove(&unit) {
                        let (gate, key) = unit.0;
                        problems.push(format!(
                            "run {run} was started behind gate {gate}/{key} by a worker that had closed it"
                        ));
                    }
                }
            }
            What::Finished { run, .. } => ahead.retain(|(_, _, unit)| unit != run),
            What::HandedBack { lease, .. } => {
                ahead.retain(|(_, _, unit)| *unit != lease.id);
                kept_back.retain(|(_, _, unit)| *unit != lease.id);
            }
            _ => {}
        }
    }
    problems
}
