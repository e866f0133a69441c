//! What must be true of a world that has lived, judged from outside: the store against what clients,
//! workers and handlers saw. The numbers are those of the invariants in the project's list.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::Hasher,
};

use redrive_core::RunState;
use redrive_store::{RunRecord, SubmittedRun};

use super::{attempt_logs, executions, leases, lived::Lived, log::What, replay};

/// Everything that is wrong with a world; nothing, if all is well.
pub(crate) fn judge(lived: &Lived) -> Vec<String> {
    let mut problems = lived.problems.clone();
    problems.extend(submissions(lived));
    problems.extend(leases::judge(lived));
    problems.extend(executions::judge(lived));
    problems.extend(replay::judge(lived));
    problems.extend(attempt_logs::judge(lived));
    problems.extend(endings(lived));
    problems
}

/// One number for everything that happened and everything that is stored.
pub(crate) fn trace(lived: &Lived) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for event in &lived.events {
        hasher.write(format!("{event:?}").as_bytes());
    }
    let stored = (&lived.runs, &lived.attempts, &lived.journal);
    hasher.write(format!("{stored:?}").as_bytes());
    hasher.finish()
}

/// The submission that a run is.
pub(crate) fn token_of(run: &RunRecord) -> u64 {
    let payload: serde_json::Value = serde_json::from_str(&run.payload).unwrap();
    payload["token"].as_u64().unwrap()
}

/// 1: what was acknowledged exists, once if it has a key, and nothing exists that was never sent.
fn submissions(lived: &Lived) -> Vec<String> {
    let mut problems = Vec::new();
    let (mut sent, mut told) = (BTreeMap::<u64, usize>::new(), BTreeMap::<u64, Vec<_>>::new());
    for event in &lived.events {
        match &event.what {
            What::Sent { token } => *sent.entry(*token).or_default() += 1,
            What::Told { token, answer } => told.entry(*token).or_default().push(*answer),
            _ => {}
        }
    }
    let mut stored = BTreeMap::<u64, Vec<&RunRecord>>::new();
    for run in &lived.runs {
        stored.entry(token_of(run)).or_default().push(run);
    }
    for (token, runs) in &stored {
        let sent = sent.get(token).copied().unwrap_or(0);
        let most = if runs[0].idempotency_key.is_some() { sent.min(1) } else { sent };
        if runs.len() > most {
            problems.push(format!("submission {token} exists {} times", runs.len()));
        }
        if runs.iter().any(|run| run.payload.contains("other")) {
            problems.push(format!("submission {token} was replaced under its key"));
        }
    }
    for (token, answers) in &told {
        let ids = answers.iter().map(|answer| match answer {
            SubmittedRun::Accepted(id)
            | SubmittedRun::Duplicate(id)
            | SubmittedRun::Conflict(id) => id.0,
        });
        let there: BTreeSet<i64> =
            stored.get(token).into_iter().flatten().map(|run| run.id.0).collect();
        for id in ids.filter(|id| !there.contains(id)) {
            problems.push(format!("submission {token} was acknowledged as run {id}, and is lost"));
        }
        let accepted = |answer: &&SubmittedRun| matches!(answer, SubmittedRun::Accepted(_));
        if answers.iter().filter(accepted).count() > there.len() {
            problems.push(format!("submission {token} was accepted too often: {answers:?}"));
        }
    }
    problems
}

/// 14: after the calm everything is ended, or waits for a worker that nobody asked for.
fn endings(lived: &Lived) -> Vec<String> {
    let unfinished = lived.runs.iter().filter(|run| {
        let nobodys = !lived.plan.queue(&run.queue).allows(&run.category);
        match RunState::of(run.status, run.next_retry_at.is_some()) {
            RunState::Discovered => !(nobodys && run.attempts == 0),
            RunState::Processing | RunState::WaitingForRetry => true,
            RunState::Passed
            | RunState::NeedsReview
            | RunState::Failed
            | RunState::GivenUp
            | RunState::Cancelled => false,
        }
    });
    unfinished.map(|run| format!("run {} never ends: it is {}", run.id, run.status)).collect()
}
