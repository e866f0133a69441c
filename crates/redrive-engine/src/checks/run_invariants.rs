//! What must hold for a run and its attempts, as a pure function of both.

use redrive_core::{RunState, RunStatus};
use redrive_store::{AttemptOutcome, AttemptRecord, RunRecord};

use crate::checks::checker::{Finding, Invariant};

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
            "the ledger has attempt {} instead of attempt {expected}",
            attempt.attempt
        ));
    }
    let (rows, reset) = (attempts.len(), run.attempts_at_reset);
    if reset > run.attempts {
        return Some(format!(
            "attempts_at_reset is {reset}, more than attempts ({})",
            run.attempts
        ));
    }
    (rows != run.attempts as usize)
        .then(|| format!("attempts is {}, but the ledger has {rows} attempts", run.attempts))
}

/// A success or a reset sets the count to 0. A give-up leaves the count as it is, for operators to read, until
/// one of them retries the run.
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
        format!("retry_count is {}, but the ledger has {retries} counted retries", run.retry_count)
    })
}

fn lease(run: &RunRecord) -> Option<String> {
    let processing = run.status == RunStatus::Processing;
    if processing != run.lease_owner.is_some() || processing != run.lease_until.is_some() {
        return Some(format!("status is {}, but the lease does not match", run.status));
    }
    let claims = i64::from(run.attempts) + i64::from(processing);
    (run.lease_epoch.0 < claims)
        .then(|| format!("epoch {} is lower than the number of claims ({claims})", run.lease_epoch))
}

fn status_matches_ledger(state: RunState, attempts: &[AttemptRecord]) -> Option<String> {
    let last = attempts.last().map(|attempt| attempt.outcome);
    let fits = match state {
        RunState::Passed | RunState::NeedsReview | RunState::Failed => {
            last == Some(AttemptOutcome::Success)
        }
        RunState::WaitingForRetry => last == Some(AttemptOutcome::Retrying),
        RunState::GivenUp => last == Some(AttemptOutcome::Failed),
        // An operator may retry or cancel a run after any attempt.
        RunState::Discovered | RunState::Processing | RunState::Cancelled => true,
    };
    (!fits).then(|| {
        let last = last.map_or("nothing", AttemptOutcome::name);
        format!("the run is {}, but the last attempt in the ledger is {last}", state.name())
    })
}

fn retry_time(run: &RunRecord, attempts: &[AttemptRecord]) -> Option<String> {
    let (next, last) = (run.next_retry_at?, attempts.last()?);
    let earliest = last.ended_at.checked_add(last.delay?).ok()?;
    (next < earliest)
        .then(|| format!("next_retry_at is {next}, before the decided time {earliest}"))
}

fn wake_up(run: &RunRecord, state: RunState) -> Option<String> {
    let waits = run.ready || run.due_at.is_some();
    match state {
        RunState::Discovered | RunState::WaitingForRetry => {
            (!waits).then(|| format!("the run is {}, but neither ready nor due", state.name()))
        }
        RunState::Processing
        | RunState::GivenUp
        | RunState::Passed
        | RunState::NeedsReview
        | RunState::Failed
        | RunState::Cancelled => {
            waits.then(|| format!("the run is {}, but a worker would claim it again", state.name()))
        }
    }
}
