//! What must be true of a run and its attempts, as a pure function of both.

use redrive_core::{RunState, RunStatus};
use redrive_store::{AttemptOutcome, AttemptRecord, RunRecord};

use crate::checks::checker::{Finding, Invariant};

/// Everything that is wrong with a run, as far as it and its attempts tell.
pub(crate) fn check_run(run: &RunRecord, attempts: &[AttemptRecord]) -> Vec<Finding> {
    let state = RunState::of(run.status, run.next_retry_at.is_some());
    let problems = [
        (Invariant::LedgerNumbers, numbers(run, attempts)),
        (Invariant::RetryCount, retry_count(run, attempts)),
        (Invariant::Lease, lease(run)),
        (Invariant::StatusMatchesLedger, status_matches_ledger(state, attempts)),
        (Invariant::RetryTime, retry_time(run, attempts)),
        (Invariant::WakeUp, wake_up(run, state)),
    ];
    let finding = |(invariant, problem): (Invariant, Option<String>)| {
        problem.map(|problem| Finding { invariant, unit: format!("run:{}", run.id), problem })
    };
    problems.into_iter().filter_map(finding).collect()
}

fn numbers(run: &RunRecord, attempts: &[AttemptRecord]) -> Option<String> {
    let gap = attempts.iter().zip(1..).find(|(attempt, expected)| attempt.attempt.0 != *expected);
    if let Some((attempt, expected)) = gap {
        return Some(format!(
            "the ledger has attempt {} where {expected} belongs",
            attempt.attempt
        ));
    }
    let (rows, reset) = (attempts.len(), run.attempts_at_reset);
    if reset > run.attempts {
        return Some(format!("it was sent back after {reset} attempts, and has {}", run.attempts));
    }
    (rows != run.attempts as usize)
        .then(|| format!("it counts {} attempts, the ledger has {rows}", run.attempts))
}

/// A success and a reset end a count. A give-up ends the waiting, but leaves the count to be read until
/// an operator sends the run back.
fn retry_count(run: &RunRecord, attempts: &[AttemptRecord]) -> Option<String> {
    let counted: &[AttemptRecord] = match attempts {
        [before @ .., last] if last.outcome == AttemptOutcome::Failed => before,
        all => all,
    };
    let since_reset = |attempt: &&AttemptRecord| attempt.attempt.0 > run.attempts_at_reset;
    let retries = counted
        .iter()
        .rev()
        .take_while(since_reset)
        .take_while(|attempt| attempt.outcome == AttemptOutcome::Retrying)
        .filter(|attempt| attempt.counted)
        .count();
    (retries != run.retry_count as usize).then(|| {
        format!("retry_count is {}, the ledger has {retries} counted retries", run.retry_count)
    })
}

fn lease(run: &RunRecord) -> Option<String> {
    let processing = run.status == RunStatus::Processing;
    if processing != run.lease_owner.is_some() || processing != run.lease_until.is_some() {
        return Some(format!("it is {}, and its lease says otherwise", run.status));
    }
    let claims = i64::from(run.attempts) + i64::from(processing);
    (run.lease_epoch.0 < claims)
        .then(|| format!("epoch {} is lower than its {claims} claims", run.lease_epoch))
}

fn status_matches_ledger(state: RunState, attempts: &[AttemptRecord]) -> Option<String> {
    let last = attempts.last().map(|attempt| attempt.outcome);
    let fits = match state {
        RunState::Passed | RunState::NeedsReview | RunState::Failed => {
            last == Some(AttemptOutcome::Success)
        }
        RunState::WaitingForRetry => last == Some(AttemptOutcome::Retrying),
        RunState::GivenUp => last == Some(AttemptOutcome::Failed),
        // An operator may have sent any unfinished or judged run back, or stopped it.
        RunState::Discovered | RunState::Processing | RunState::Cancelled => true,
    };
    (!fits).then(|| {
        let last = last.map_or("nothing", AttemptOutcome::name);
        format!("it is {}, and the last the ledger has is {last}", state.name())
    })
}

fn retry_time(run: &RunRecord, attempts: &[AttemptRecord]) -> Option<String> {
    let (next, last) = (run.next_retry_at?, attempts.last()?);
    let earliest = last.ended_at.checked_add(last.delay?).ok()?;
    (next < earliest).then(|| format!("its retry at {next} comes before {earliest}"))
}

fn wake_up(run: &RunRecord, state: RunState) -> Option<String> {
    let waits = run.ready || run.due_at.is_some();
    match state {
        RunState::Discovered | RunState::WaitingForRetry => {
            (!waits).then(|| format!("it is {} and nothing will wake it", state.name()))
        }
        RunState::Processing
        | RunState::GivenUp
        | RunState::Passed
        | RunState::NeedsReview
        | RunState::Failed
        | RunState::Cancelled => {
            waits.then(|| format!("it is {} and would be claimed again", state.name()))
        }
    }
}
