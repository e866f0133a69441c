//! What the stages counted themselves, against what the ledger says.

use std::collections::BTreeMap;

use redrive_core::Cause;
use redrive_store::AttemptRecord;

use super::{
    super::log::{Event, How, What},
    news::SampleNews,
    verdict::Lived,
};

/// One call of a stage.
struct Execution<'a> {
    who: &'a str,
    attempt: u32,
    how: &'a How,
}

/// A sample at a stage.
type Place<'a> = (i64, &'a str);

pub(super) fn judge(lived: &Lived) -> Vec<String> {
    let mut problems = beginnings(lived);
    let executions = executions(&lived.events);
    let mut ledger: BTreeMap<Place<'_>, Vec<&AttemptRecord>> = BTreeMap::new();
    for row in &lived.attempts {
        ledger.entry((row.unit.id, row.unit.stage.as_str())).or_default().push(row);
    }
    let nothing = Vec::new();
    for (place, executed) in &executions {
        let rows = ledger.get(place).map_or(&[][..], Vec::as_slice);
        let found = rows_were_executed(executed, rows).into_iter().chain(wasted(executed, rows));
        problems.extend(found.map(|problem| format!("sample:{}/{}: {problem}", place.0, place.1)));
    }
    for (place, rows) in &ledger {
        let executed = executions.get(place).unwrap_or(&nothing);
        if executed.is_empty() && rows.iter().any(|row| !is_lost(row)) {
            problems.push(format!("sample:{}/{}: it was never executed", place.0, place.1));
        }
    }
    problems.extend(claims(lived, &executions));
    problems
}

fn executions(events: &[Event]) -> BTreeMap<Place<'_>, Vec<Execution<'_>>> {
    let mut all: BTreeMap<Place<'_>, Vec<Execution<'_>>> = BTreeMap::new();
    let mut under_way = BTreeMap::new();
    for event in events {
        match &event.what {
            What::Sample(SampleNews::Began { execution, sample, stage, attempt, .. }) => {
                under_way.insert(*execution, (*sample, stage.as_str(), *attempt));
            }
            What::Sample(SampleNews::Ended { execution, how }) => {
                let (sample, stage, attempt) = under_way[execution];
                let ended = Execution { who: &event.who, attempt, how };
                all.entry((sample, stage)).or_default().push(ended);
            }
            _ => {}
        }
    }
    all
}

/// Never more at once than allowed, and nothing that the worker does not hold, unless it stood still.
fn beginnings(lived: &Lived) -> Vec<String> {
    let mut problems = Vec::new();
    let mut stood_still = Vec::new();
    for event in &lived.events {
        match &event.what {
            What::Froze => stood_still.push(event.who.as_str()),
            What::Sample(SampleNews::Began { stage, running, held, .. }) => {
                if *running > lived.plan.stage(stage).limits.concurrency {
                    problems.push(format!("too many at once: {event:?}"));
                }
                if !held && !stood_still.contains(&event.who.as_str()) {
                    problems
                        .push(format!("done again, or by someone who does not hold it: {event:?}"));
                }
            }
            What::Sample(SampleNews::Claimed { running: false, .. }) => {
                problems.push(format!("claimed of a run that was stopped: {event:?}"));
            }
            What::Sample(SampleNews::Kept { running: false, .. }) => {
                problems.push(format!("kept of a run that was stopped: {event:?}"));
            }
            _ => {}
        }
    }
    problems
}

fn is_lost(row: &AttemptRecord) -> bool {
    row.cause == Some(Cause::LostWorker)
}

/// Every attempt was executed as the ledger says, except those of lost workers.
fn rows_were_executed(executed: &[Execution<'_>], rows: &[&AttemptRecord]) -> Vec<String> {
    let mut problems = Vec::new();
    for row in rows.iter().filter(|row| !is_lost(row)) {
        let fits = |execution: &Execution<'_>| {
            let as_it_ended = match execution.how {
                How::Judged(outcome) => row.outcome.name() == *outcome,
                How::Failed(code) => row.code.as_ref() == Some(code),
                How::Stopped | How::Dropped => false,
            };
            as_it_ended && execution.who == row.worker && execution.attempt == row.attempt.0
        };
        if executed.iter().filter(|execution| fits(execution)).count() != 1 {
            problems.push(format!("attempt {} was not executed so", row.attempt));
        }
    }
    problems
}

/// What was done and is not in the ledger was lost with its worker.
fn wasted(executed: &[Execution<'_>], rows: &[&AttemptRecord]) -> Option<String> {
    let complete = |e: &&Execution<'_>| matches!(e.how, How::Judged(_) | How::Failed(_));
    let complete = executed.iter().filter(complete).count();
    let lost = rows.iter().filter(|row| is_lost(row)).count();
    let written = rows.len() - lost;
    (complete > written + lost).then(|| {
        format!("it was done {complete} times, and the ledger has {written} and {lost} lost")
    })
}

/// A claim is executed once at most.
fn claims(lived: &Lived, executions: &BTreeMap<Place<'_>, Vec<Execution<'_>>>) -> Vec<String> {
    let mut problems = Vec::new();
    for sample in &lived.samples {
        let own = executions.iter().filter(|((id, _), _)| *id == sample.id.0);
        let executed: usize = own.map(|(_, executed)| executed.len()).sum();
        if i64::try_from(executed).unwrap() > sample.lease_epoch.0 {
            let claims = sample.lease_epoch;
            problems.push(format!("sample:{}: {executed} executions, {claims} claims", sample.id));
        }
    }
    problems
}
