//! 5: at most one live lease per run, epochs only grow, no accepted write carries an older epoch. And
//! a lease ends early for nobody. Of runs, partitions and samples: no worker is taken for lost without trouble.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use redrive_core::RunState;
use redrive_store::{Leased, RunAction, RunChange, Written};

use super::{
    lived::Lived,
    log::{Event, Held, What},
    pipelines::SampleNews,
    weather::{Fault, LONGEST_TROUBLE},
};

/// A lease, as its story tells.
struct Lease {
    epoch: i64,
    owner: String,
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
    problems.extend(lost_without_trouble(Leased::Run, &lived.events));
    problems
}

fn follow(holding: &mut Holding, event: &Event, lived: &Lived) -> Option<String> {
    match &event.what {
        What::Claimed { epoch, until, .. } => {
            let held = holding.lease.replace(Lease {
                epoch: *epoch,
                owner: event.who.clone(),
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

/// A worker is lost only if its lease ran out.
fn not_lost(lease: &Lease, event: &Event, lived: &Lived) -> Option<String> {
    (!lease.ran_out && !has_run_out(lease, event.at, lived))
        .then(|| "it was taken from a worker whose lease never ran out".to_owned())
}

/// What happened to the lease of a unit.
enum Turn {
    /// Whoever did it has the unit from here on.
    Taken,
    /// Nobody has it any more, perhaps because its worker was taken for lost.
    Over { lost: bool },
}

/// Workers that were taken for lost though nothing had happened to them.
pub(crate) fn lost_without_trouble(kind: Leased, events: &[Event]) -> Vec<String> {
    let mut holders: BTreeMap<i64, (&str, Duration)> = BTreeMap::new();
    let mut problems = Vec::new();
    for event in events {
        let Some((id, turn)) = turn(kind, &event.what) else { continue };
        let holder = match turn {
            Turn::Taken => {
                holders.insert(id, (&event.who, event.at));
                continue;
            }
            Turn::Over { lost } => holders.remove(&id).filter(|_| lost),
        };
        if let Some((owner, taken)) = holder
            && !was_in_trouble(kind, owner, taken, event.at, events)
        {
            problems
                .push(format!("{kind:?} {id}: {owner} was lost without any trouble: {event:?}"));
        }
    }
    problems
}

fn turn(kind: Leased, what: &What) -> Option<(i64, Turn)> {
    let applied = |written: &Written| *written == Written::Applied;
    let (of, id, turn) = match what {
        What::Claimed { run, .. } => (Leased::Run, *run, Turn::Taken),
        What::Took { lease, .. } => (Leased::Partition, lease.id, Turn::Taken),
        What::Sample(SampleNews::Claimed { sample, .. } | SampleNews::Kept { sample, .. }) => {
            (Leased::Sample, *sample, Turn::Taken)
        }
        What::Finished { run, lost, written, .. } if applied(written) => {
            (Leased::Run, *run, Turn::Over { lost: *lost })
        }
        What::Judged { verdict, written, .. } if applied(written) => {
            (Leased::Partition, verdict.lease.id, Turn::Over { lost: verdict.lost })
        }
        What::Sample(SampleNews::Finished { sample, lost, written, .. })
            if written.is_applied() =>
        {
            (Leased::Sample, *sample, Turn::Over { lost: *lost })
        }
        What::HandedBack { lease, written } if applied(written) => {
            (lease.kind, lease.id, Turn::Over { lost: false })
        }
        _ => return None,
    };
    (of == kind).then_some((id, turn))
}

/// Whether something happened to the owner of a lease that was taken and ended at these moments.
fn was_in_trouble(
    kind: Leased,
    owner: &str,
    taken: Duration,
    ended: Duration,
    events: &[Event],
) -> bool {
    let of_owner = || events.iter().filter(|event| event.who == owner);
    // Who stops while the store takes nothing cannot wait for it.
    let stops = |event: &&Event| matches!(event.what, What::Stopping | What::Gone);
    let stopping = of_owner().filter(stops).map(|event| event.at).min();
    let stopped = stopping.filter(|since| *since <= ended).is_some_and(|since| {
        let meanwhile = since.min(taken)..=ended;
        of_owner()
            .any(|event| matches!(event.what, What::Fault { .. }) && meanwhile.contains(&event.at))
    });
    stopped || of_owner().any(|event| explains(kind, event, taken, ended))
}

/// Whether something explains that a lease was lost that was taken and ended at these moments. A store that is in trouble
/// with everybody does not: nobody can tell who is lost then. Nor does a claim whose answer was lost, if only the worker
/// could ask what it holds.
fn explains(kind: Leased, event: &Event, taken: Duration, ended: Duration) -> bool {
    let (claim, finish) = match kind {
        Leased::Run => ("claim_runs", "finish_runs"),
        Leased::Partition => ("claim_partitions", "finish_partitions"),
        Leased::Sample => ("claim_samples", "finish_samples"),
        Leased::Group | Leased::Feed => return true,
    };
    let lately = taken.saturating_sub(LONGEST_TROUBLE);
    let What::Fault { call, fault, everybodys } = event.what else {
        let stood_still = matches!(event.what, What::Crashed | What::Froze);
        return stood_still && (lately..=ended).contains(&event.at);
    };
    let until = match fault {
        Fault::SlowThere(time) | Fault::SlowBack(time) => event.at + time,
        Fault::None | Fault::Unavailable | Fault::Full | Fault::AnswerLost => event.at,
    };
    let delays = match call {
        "renew_leases" | "hand_back" | "expired_leases" | "next_lease_end" => event.at <= ended,
        call if call == finish => event.at <= ended,
        call => call == claim && event.at <= taken && fault != Fault::AnswerLost,
    };
    delays && !everybodys && until >= taken
}
