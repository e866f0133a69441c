//! 3, 4, 5, 12: what handlers counted themselves, against what the ledger and the journal say.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::{Cause, RunState};
use redrive_store::{AttemptOutcome, AttemptRecord, Leased, RunChange, Written};

use super::{
    lived::Lived,
    log::{Event, How, What},
};

/// One call of a handler.
struct Execution<'a> {
    who: &'a str,
    queue: &'a str,
    run: i64,
    attempt: u32,
    began: usize,
    ended: usize,
    how: &'a How,
}

/// Everything that happened to one run.
#[derive(Default)]
struct Story<'a> {
    executions: Vec<Execution<'a>>,
    /// By worker.
    claims: BTreeMap<&'a str, usize>,
    releases: BTreeSet<i64>,
    /// Where in the log leases were taken and renewed: worker, epoch, attempt if taken, end.
    leases: Vec<(usize, &'a str, i64, Option<u32>, Timestamp)>,
    /// Where in the log it was cancelled while someone held it.
    cancels: Vec<usize>,
}

pub(crate) fn judge(lived: &Lived) -> Vec<String> {
    let mut problems = concurrency(lived);
    let stories = stories(&lived.events);
    for (run, story) in &stories {
        let attempts = lived.attempts.get(run).map_or(&[][..], Vec::as_slice);
        let found = claims_end_once(story, attempts)
            .into_iter()
            .chain(journal_of_hand_backs(*run, story, lived))
            .chain(rows_have_executions(story, attempts, lived))
            .chain(overlaps(story, lived))
            .chain(outlived_leases(story, lived));
        problems.extend(found.map(|problem| format!("run {run}: {problem}")));
    }
    let unclaimed = |run: &&i64| !stories.contains_key(*run);
    let made_up = lived.attempts.keys().filter(unclaimed);
    problems.extend(made_up.map(|run| format!("run {run} has attempts, and nobody claimed it")));
    problems
}

fn stories(events: &[Event]) -> BTreeMap<i64, Story<'_>> {
    let mut stories: BTreeMap<i64, Story<'_>> = BTreeMap::new();
    let mut under_way: BTreeMap<usize, Execution<'_>> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        let who = event.who.as_str();
        match &event.what {
            What::Claimed { run, epoch, attempt, until } => {
                let story = stories.entry(*run).or_default();
                *story.claims.entry(who).or_default() += 1;
                story.leases.push((at, who, *epoch, Some(*attempt), *until));
            }
            What::Renewed { lease, until, written: Written::Applied }
                if lease.kind == Leased::Run =>
            {
                let leases = &mut stories.entry(lease.id).or_default().leases;
                leases.push((at, who, lease.epoch, None, *until));
            }
            What::HandedBack { lease, written: Written::Applied } if lease.kind == Leased::Run => {
                stories.entry(lease.id).or_default().releases.insert(lease.epoch);
            }
            What::Asked { run, change: RunChange::Done(RunState::Processing), .. } => {
                stories.entry(*run).or_default().cancels.push(at);
            }
            What::Began { execution, queue, run, attempt, .. } => {
                let (run, attempt, how) = (*run, *attempt, &How::Dropped);
                let begun = Execution { who, queue, run, attempt, began: at, ended: at, how };
                under_way.insert(*execution, begun);
            }
            What::Ended { execution, how } => {
                let mut ended = under_way.remove(execution).unwrap();
                (ended.ended, ended.how) = (at, how);
                stories.entry(ended.run).or_default().executions.push(ended);
            }
            _ => {}
        }
    }
    for story in stories.values_mut() {
        story.executions.sort_by_key(|execution| execution.began);
    }
    stories
}

/// 12: never more at once than allowed.
fn concurrency(lived: &Lived) -> Vec<String> {
    let too_many = lived.events.iter().filter(|event| match &event.what {
        What::Began { queue, running, .. } => *running > lived.plan.queue(queue).limits.concurrency,
        _ => false,
    });
    too_many.map(|event| format!("too many at once: {event:?}")).collect()
}

/// 3: every claim ends exactly once: in a ledger row, a hand-back, or a cancellation.
fn claims_end_once(story: &Story<'_>, attempts: &[AttemptRecord]) -> Option<String> {
    let claims: usize = story.claims.values().sum();
    let (rows, backs, cancels) = (attempts.len(), story.releases.len(), story.cancels.len());
    (claims != rows + backs + cancels).then(|| {
        format!("{claims} claims, but {rows} attempts, {backs} hand-backs, {cancels} cancellations")
    })
}

/// 3: the journal has every hand-back, and no other.
fn journal_of_hand_backs(run: i64, story: &Story<'_>, lived: &Lived) -> Option<String> {
    let unit = format!("run:{run}");
    let of_run = lived.journal.iter().filter(|record| {
        record.entry.action == "run.handback" && record.entry.unit.as_ref() == Some(&unit)
    });
    let epoch = |record: &redrive_store::JournalRecord| {
        let details: serde_json::Value = serde_json::from_str(&record.entry.details).unwrap();
        details["epoch"].as_i64().unwrap()
    };
    let journalled: Vec<i64> = of_run.map(epoch).collect();
    let told: Vec<i64> = story.releases.iter().copied().collect();
    (journalled != told)
        .then(|| format!("handed back under {told:?}, and the journal has {journalled:?}"))
}

/// 4: every attempt was executed once and as the ledger says, except those of lost workers; every
/// execution had a claim of its own; what was executed to its end and is not in the ledger was lost
/// with its worker, or cancelled.
fn rows_have_executions(
    story: &Story<'_>,
    attempts: &[AttemptRecord],
    lived: &Lived,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut unwritten: Vec<&Execution<'_>> = story.executions.iter().collect();
    let is_lost = |row: &&AttemptRecord| row.cause == Some(Cause::LostWorker);
    for row in attempts.iter().filter(|row| !is_lost(row)) {
        match unwritten.iter().rposition(|execution| fits(execution, row, lived)) {
            Some(at) => _ = unwritten.remove(at),
            None => problems.push(format!("attempt {} was not executed so", row.attempt)),
        }
    }
    for (who, claims) in &story.claims {
        let executed = story.executions.iter().filter(|execution| execution.who == *who).count();
        if executed > *claims {
            problems.push(format!("{who} claimed it {claims} times and executed it {executed}"));
        }
        let complete = |execution: &&&Execution<'_>| {
            execution.who == *who && matches!(execution.how, How::Judged(_) | How::Failed(_))
        };
        let wasted = unwritten.iter().filter(complete).count();
        let lost = attempts.iter().filter(is_lost).filter(|row| row.worker == *who).count();
        if wasted > lost + story.cancels.len() {
            problems.push(format!("{wasted} results of {who} are not in the ledger"));
        }
    }
    problems
}

fn fits(execution: &Execution<'_>, row: &AttemptRecord, lived: &Lived) -> bool {
    let as_it_ended = match (row.outcome, execution.how) {
        (AttemptOutcome::Success, How::Judged(_)) => true,
        (AttemptOutcome::Retrying | AttemptOutcome::Failed, How::Failed(code)) => {
            row.code.as_ref() == Some(code)
        }
        _ => false,
    };
    let showed = |time, event: usize| lived.clock.showed(time, lived.events[event].at);
    as_it_ended
        && execution.who == row.worker
        && execution.attempt == row.attempt.0
        && showed(row.started_at, execution.began)
        && showed(row.ended_at, execution.ended)
}

/// 5: two executions of one run overlap only if the first one's worker was frozen, or an operator
/// took the run from it a moment before.
fn overlaps(story: &Story<'_>, lived: &Lived) -> Vec<String> {
    let mut problems = Vec::new();
    for (n, second) in story.executions.iter().enumerate() {
        let before = &story.executions[..n];
        for first in before.iter().filter(|first| first.ended > second.began) {
            let froze = frozen(first.who, first.began, first.ended, lived);
            if !froze && !cancelled_lately(story, second, lived) {
                problems.push(format!(
                    "executed twice at once: {:?} and {:?}",
                    lived.events[first.began], lived.events[second.began]
                ));
            }
        }
    }
    problems
}

/// A handler is stopped before its lease runs out, unless its worker was frozen.
fn outlived_leases(story: &Story<'_>, lived: &Lived) -> Vec<String> {
    let mut problems = Vec::new();
    for execution in &story.executions {
        let taken = story.leases.iter().rev().find(|(at, who, _, attempt, _)| {
            *at < execution.began && *who == execution.who && *attempt == Some(execution.attempt)
        });
        let Some((taken, _, epoch, ..)) = taken else { continue };
        // Renewals move ends forward only.
        let known = story
            .leases
            .iter()
            .filter(|(at, _, known, ..)| known == epoch && *at < execution.ended);
        let until = known.map(|lease| lease.4).max().unwrap();
        let ended = lived.clock.lease_at(lived.events[execution.ended].at);
        if ended > until && !frozen(execution.who, *taken, execution.ended, lived) {
            let began = &lived.events[execution.began];
            problems.push(format!("executed until {ended}, held until {until}: {began:?}"));
        }
    }
    problems
}

/// Whether a worker stood still at some time between two places in the log.
fn frozen(who: &str, from: usize, to: usize, lived: &Lived) -> bool {
    let mut still = false;
    lived.events[..=to].iter().enumerate().any(|(at, event)| {
        if event.who == who {
            match event.what {
                What::Froze => still = true,
                What::Thawed => still = false,
                _ => {}
            }
        }
        still && at >= from
    })
}

/// Whether the run was taken from a worker so lately that it may not have noticed.
fn cancelled_lately(story: &Story<'_>, second: &Execution<'_>, lived: &Lived) -> bool {
    let lease: Duration = lived.plan.queue(second.queue).limits.lease;
    let now = lived.events[second.began].at;
    story
        .cancels
        .iter()
        .any(|cancel| *cancel < second.began && lived.events[*cancel].at + lease >= now)
}
