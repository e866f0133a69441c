//! What must be true after any chaos, beyond what `redrive doctor` checks.

use std::collections::{BTreeMap, BTreeSet};

use redrive::{Cause, store::UnitKind};

use super::{
    case::Case,
    evidence::{Attempt, Ended, Execution, Noted},
    handlers::{CORN, CORN_TIMES, GATED_QUEUES, Grain, LEASE},
};

/// A rule, and what speaks against it.
pub(super) type Rule = (&'static str, fn(&Case<'_>) -> Vec<String>);

/// All of them.
pub(super) const RULES: [Rule; 11] = [
    ("what was asked for is there, once, and nothing else", there),
    ("everything comes to the end that it should", ended_as_meant),
    ("what the store calls done was done", done),
    ("what the store says a handler failed, failed", failed),
    ("what was done is in the store", known),
    ("no attempt is executed twice, but for what was handed back", executed_once),
    ("a unit ends once", ends_once),
    ("nobody works on what another holds", alone),
    ("each loss is told", losses_told),
    ("nobody is lost to whom nothing happened", lost_in_trouble),
    ("nothing behind a gate is given up because it was refused", refusals_cost_nothing),
];

fn there(case: &Case<'_>) -> Vec<String> {
    let (evidence, asked) = (case.evidence, case.asked);
    let runs = evidence.runs.iter().map(|(key, _)| format!("{key:?}"));
    let partitions = evidence.partitions.iter().map(|partition| partition.unit.clone());
    let items = evidence.items.iter().map(|(key, _)| format!("{key:?}"));
    let there = runs.chain(partitions).chain(items);
    let mut expected: BTreeSet<String> = asked.runs.keys().map(|key| format!("{key:?}")).collect();
    expected.extend(asked.partitions.iter().cloned());
    expected.extend(asked.items.iter().map(|key| format!("{key:?}")));
    let mut against = Vec::new();
    for unit in there {
        if !expected.remove(&unit) {
            against.push(format!("{unit} was not asked for, or is there twice"));
        }
    }
    against.extend(expected.iter().map(|unit| format!("{unit} is lost")));
    let mills: BTreeSet<i64> = evidence.mills.iter().map(|(id, ..)| *id).collect();
    let lost = asked.mills.iter().filter(|id| !mills.contains(id));
    against.extend(lost.map(|id| format!("run {id} of the pipeline is lost")));
    if mills.len() > asked.mills_asked {
        against.push(format!("{} runs of the pipeline are there", mills.len()));
    }
    against
}

fn ended_as_meant(case: &Case<'_>) -> Vec<String> {
    let mut against = Vec::new();
    let mut expect = |ended: &Ended, meant: &str| {
        if !meant.split(" or ").any(|meant| meant == ended.status) {
            against.push(format!("{} is {}, not {meant}", ended.unit, ended.status));
        }
    };
    for (key, run) in &case.evidence.runs {
        expect(run, case.asked.runs.get(key).copied().unwrap_or("nothing"));
    }
    for partition in &case.evidence.partitions {
        let bad = partition.unit.starts_with("partition:lost/");
        expect(partition, if bad { "failed" } else { "success" });
    }
    for ((_, name), item) in &case.evidence.items {
        expect(item, if name.contains("/bad-") { "upload_giveup" } else { "uploaded" });
    }
    let grains = |wanted| CORN.iter().filter(|(_, grain)| *grain == wanted).count() * CORN_TIMES;
    let flour = [grains(Grain::Flour), grains(Grain::Skipped), grains(Grain::Dead)];
    let meant = [flour[0], flour[1], flour[2], flour.iter().sum()].map(|count| count as u64);
    for (id, status, counts) in &case.evidence.mills {
        if *counts != meant {
            against.push(format!("run {id} of the pipeline has {counts:?}, not {meant:?}"));
        }
        if status == "running" {
            against.push(format!("run {id} of the pipeline is still running"));
        }
        let output = &case.evidence.outputs[id];
        let different: BTreeSet<&String> = output.iter().collect();
        if output.len() as u64 != meant[0] || different.len() != output.len() {
            against.push(format!("run {id} of the pipeline shows {} lines", output.len()));
        }
    }
    against
}

fn done(case: &Case<'_>) -> Vec<String> {
    let done = case.evidence.attempts.iter().filter(|row| row.is_done());
    let by_handlers = done.filter(|row| row.kind != UnitKind::Item);
    let undone = by_handlers.filter(|row| !case.ok.contains(&row.execution));
    undone.map(|row| format!("{row:?}")).collect()
}

/// A partition may fail without its extractor: its disk may be full.
fn failed(case: &Case<'_>) -> Vec<String> {
    let by_handlers = |kind| matches!(kind, UnitKind::Run | UnitKind::Sample);
    let rows = case.evidence.attempts.iter().filter(|row| by_handlers(row.kind));
    let said = rows.filter(|row| row.cause == Some(Cause::Handler));
    let unsaid = said.filter(|row| !case.failed.contains(&row.execution));
    unsaid.map(|row| format!("{row:?}")).collect()
}

fn known(case: &Case<'_>) -> Vec<String> {
    let accounted_for = |execution: &Execution| {
        case.rows.contains_key(execution)
            || case.runs_handed_back.contains(execution.which.as_str())
            || case.told(&execution.unit, "run.cancel") > 0
    };
    let unknown = case.begun.keys().filter(|execution| !accounted_for(execution));
    unknown.map(|execution| format!("{execution:?} was begun")).collect()
}

fn executed_once(case: &Case<'_>) -> Vec<String> {
    let mut against = Vec::new();
    for (execution, times) in &case.begun {
        let is_partition = execution.unit.starts_with("partition:");
        let most = 1 + if is_partition { 0 } else { case.let_go(&execution.unit) };
        if *times > most {
            against.push(format!("{execution:?} was begun {times} times, {most} at most"));
        }
    }
    against
}

fn ends_once(case: &Case<'_>) -> Vec<String> {
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for row in case.evidence.attempts.iter().filter(|row| row.is_done()) {
        *ends.entry(&row.execution.unit).or_default() += 1;
    }
    let most = |unit: &str| 1 + case.told(unit, "partition.reprocess");
    let often = ends.into_iter().filter(|(unit, times)| *times > most(unit));
    often.map(|(unit, times)| format!("{unit} was done {times} times")).collect()
}

/// Between the beginning of an execution that counts and its end, no other that counts begins. One whose
/// worker was lost may still be under way, or begin late: its program does not know.
fn alone(case: &Case<'_>) -> Vec<String> {
    let counts = |execution: &Execution| {
        case.rows.get(execution).is_some_and(|row| !row.is_lost())
            && case.let_go(&execution.unit) == 0
    };
    let mut under_way: BTreeMap<&str, &Execution> = BTreeMap::new();
    let mut against = Vec::new();
    for (noted, execution) in &case.evidence.notes {
        let unit = execution.unit.as_str();
        match noted {
            Noted::Begin => {
                let before = under_way.insert(unit, execution);
                if let Some(before) = before.filter(|it| counts(it) && counts(execution)) {
                    against.push(format!("{execution:?} began while {before:?} was under way"));
                }
            }
            Noted::Ok | Noted::Fail => {
                if under_way.get(unit) == Some(&execution) {
                    under_way.remove(unit);
                }
            }
        }
    }
    against
}

fn losses_told(case: &Case<'_>) -> Vec<String> {
    let mut lost: BTreeMap<&str, usize> = BTreeMap::new();
    for row in case.evidence.attempts.iter().filter(|row| row.is_lost()) {
        *lost.entry(&row.execution.unit).or_default() += 1;
    }
    let kind = |unit: &str| unit.split(':').next().unwrap_or_default().to_owned();
    let told = |unit: &str| case.told(unit, &format!("{}.lease_lost", kind(unit)));
    let untold = lost.into_iter().filter(|(unit, times)| told(unit) != *times);
    untold.map(|(unit, times)| format!("{unit} was lost {times} times")).collect()
}

/// Whoever is taken for lost was killed, stopped or frozen, while it held the lease or at most the length of a lease before.
/// An outage of everybody explains it only while it lasts: it takes half a lease to give up on a claim whose answer is lost,
/// and of leases as short as these not always enough is left to release what was claimed.
fn lost_in_trouble(case: &Case<'_>) -> Vec<String> {
    let rows = case.evidence.attempts.iter().filter(|row| row.is_lost());
    let troubled = |row: &Attempt| {
        case.incidents.iter().any(|incident| {
            let everybodys = incident.on.is_none() && incident.worker.is_none();
            (everybodys || incident.worker.as_ref() == Some(&row.worker))
                && incident.from <= row.ended_at
                && incident.until >= row.started_at - LEASE
        })
    };
    let untroubled = rows.filter(|row| !troubled(row));
    untroubled.map(|row| format!("{row:?}")).collect()
}

/// A run that waits behind a gate while the service refuses others is refused itself a few times at most.
fn refusals_cost_nothing(case: &Case<'_>) -> Vec<String> {
    let gated =
        case.evidence.runs.iter().filter(|((queue, _), _)| GATED_QUEUES.contains(&&**queue));
    let given_up = gated.map(|(_, run)| run).filter(|run| run.status == "error");
    let refused = given_up.filter(|run| {
        let rows = case.evidence.attempts.iter().filter(|row| row.execution.unit == run.unit);
        rows.filter(|row| !row.is_lost()).all(|row| row.class.as_deref() == Some("rate_limited"))
    });
    refused.map(|run| format!("{} is {}", run.unit, run.status)).collect()
}
