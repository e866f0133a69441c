//! 5: at most one live lease per run, epochs only grow, no accepted write carries an older epoch. And
//! a lease ends early for nobody.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use redrive_core::RunState;
use redrive_store::{Leased, RunAction, RunChange, Written};

use super::{
    lived::Lived,
    log::{Event, Held, What},
    weather::{Fault, LONGEST_TROUBLE},
};

/// A lease, as its story tells.
struct Lease {
    epoch: i64,
    owner: String,
    since: Duration,
    until: Timestamp,
    /// Whether it ran out at some time, even if it was renewed afterwards.
    ran_out: bool,
}

/// The leases of one run.
#[derive(Default)]
struct Holding {
    last_epoch: i64,
    lease: Option<Lease>,
}

/// Tells the story of all leases again and says where it does not fit.
pub(crate) fn judge(lived: &Lived) -> Vec<String> {
    let mut runs: BTreeMap<i64, Holding> = BTreeMap::new();
    let mut problems = Vec::new();
    for event in &lived.events {
        if let What::Looked { now, .. } = event.what {
            // A request may have been on its way for a while.
            let since = event.at.saturating_sub(LONGEST_TROUBLE * 2);
            if now > lived.clock.latest_between(since, event.at) {
                problems.push(format!("asked for what is not due: {event:?}"));
            }
        }
        let run = match &event.what {
            What::Claimed { run, .. } | What::Finished { run, .. } | What::Asked { run, .. } => {
                *run
            }
            What::Renewed { lease, .. } | What::HandedBack { lease, .. }
                if lease.kind == Leased::Run =>
            {
                lease.id
            }
            _ => continue,
        };
        let holding = runs.entry(run).or_default();
        if let Some(problem) = follow(holding, event, lived) {
            problems.push(format!("run {run}: {problem}: {event:?}"));
        }
    }
    for run in &lived.runs {
        let last = runs.get(&run.id.0).map_or(0, |holding| holding.last_epoch);
        if run.lease_epoch.0 != last {
            problems.push(format!("run {} has epoch {}, not {last}", run.id, run.lease_epoch));
        }
    }
    problems
}

fn follow(holding: &mut Holding, event: &Event, lived: &Lived) -> Option<String> {
    match &event.what {
        What::Claimed { epoch, until, .. } => {
            let held = holding.lease.replace(Lease {
                epoch: *epoch,
                owner: event.who.clone(),
                since: event.at,
                until: *until,
                ran_out: false,
            });
            let grew = *epoch > holding.last_epoch;
            holding.last_epoch = *epoch;
            match held {
                Some(lease) => Some(format!("claimed while {} holds it", lease.owner)),
                None => (!grew).then(|| "its epoch did not grow".to_owned()),
            }
        }
        What::Renewed { lease: Held { epoch, .. }, until, written } => {
            let problem = guarded(holding, *epoch, *written);
            if let (Written::Applied, Some(lease)) = (written, &mut holding.lease) {
                lease.ran_out |= has_run_out(lease, event.at, lived);
                lease.until = lease.until.max(*until);
            }
            problem
        }
        What::Finished { epoch, lost, written, .. } => {
            let problem = guarded(holding, *epoch, *written);
            if *written == Written::Stale {
                return problem;
            }
            let lease = holding.lease.take();
            problem.or_else(|| lost.then(|| not_lost(&lease?, event, lived)).flatten())
        }
        What::HandedBack { lease: Held { epoch, .. }, written } => {
            let problem = guarded(holding, *epoch, *written);
            if *written == Written::Applied {
                holding.lease = None;
            }
            problem
        }
        What::Asked { action, change: RunChange::Done(before), .. } => {
            let held = *before == RunState::Processing;
            let lease = holding.lease.take();
            if held {
                holding.last_epoch += 1;
            }
            let fits = held == lease.is_some() && (!held || *action == RunAction::Cancel);
            (!fits).then(|| "an operator saw it otherwise".to_owned())
        }
        _ => None,
    }
}

/// A guarded write is applied if, and only if, its epoch is the one that holds.
fn guarded(holding: &Holding, epoch: i64, written: Written) -> Option<String> {
    let holds = holding.lease.as_ref().is_some_and(|lease| lease.epoch == epoch);
    match (holds, written) {
        (true, Written::Applied) | (false, Written::Stale) => None,
        (true, Written::Stale) => Some("the holder was refused".to_owned()),
        (false, Written::Applied) => Some("a stale write was accepted".to_owned()),
    }
}

fn has_run_out(lease: &Lease, at: Duration, lived: &Lived) -> bool {
    lease.until <= lived.clock.lease_at(at)
}

/// A worker is lost only if its lease ran out, and that happens only to workers in trouble.
fn not_lost(lease: &Lease, event: &Event, lived: &Lived) -> Option<String> {
    if !lease.ran_out && !has_run_out(lease, event.at, lived) {
        return Some("it was taken from a worker whose lease never ran out".to_owned());
    }
    let of_owner = || lived.events.iter().filter(|other| other.who == lease.owner);
    let held = |other: &Event| (lease.since..=event.at).contains(&other.at);
    // Who stops while the store takes nothing cannot wait for it.
    let stopped = of_owner().any(|other| other.what == What::Gone && held(other))
        && of_owner().any(|other| matches!(other.what, What::Fault { .. }) && held(other));
    let trouble = stopped || of_owner().any(|other| explains(other, lease.since, event.at));
    (!trouble).then(|| format!("{} was lost without any trouble", lease.owner))
}

/// Whether something explains that a lease was lost that was taken and ended at these moments. A store that is in trouble
/// with everybody does not: nobody can tell who is lost then. Nor does a claim whose answer was lost, if only the worker
/// could ask what it holds.
fn explains(event: &Event, taken: Duration, ended: Duration) -> bool {
    let lately = taken.saturating_sub(LONGEST_TROUBLE);
    match &event.what {
        What::Crashed | What::Froze => (lately..=ended).contains(&event.at),
        What::Fault { everybodys: true, .. } => false,
        What::Fault { call: "claim_runs", fault: Fault::AnswerLost, .. } => false,
        What::Fault { call: "claim_runs", .. } => (lately..=taken).contains(&event.at),
        What::Fault {
            call: "renew_leases" | "finish_runs" | "hand_back" | "expired_leases" | "next_lease_end",
            ..
        } => (taken..=ended).contains(&event.at),
        _ => false,
    }
}
