//! Explains what happens next to a run.

use jiff::Timestamp;
use redrive_core::RunState;
use redrive_store::{JournalRecord, PausedQueue, RunRecord};

use super::Next;
use crate::{Declarations, resources::run_state_name, words::apart};

pub(super) struct RunContext<'a> {
    /// On the wall clock.
    pub(super) now: Timestamp,
    /// On the lease clock.
    pub(super) lease_now: Timestamp,
    pub(super) declared: Option<&'a Declarations>,
    pub(super) paused: Option<&'a PausedQueue>,
    pub(super) journal: &'a [JournalRecord],
    pub(super) last_rule: Option<&'a str>,
    /// Why a gate keeps the run back.
    pub(super) gate: Option<&'a str>,
}

impl Next {
    pub(super) fn of_run(run: &RunRecord, context: &RunContext<'_>) -> Self {
        let state = run.state();
        let (at, because) = match state {
            RunState::Discovered | RunState::WaitingForRetry => waiting(run, context),
            RunState::Processing => held(run, context),
            RunState::GivenUp => (None, given_up(run, context)),
            RunState::Passed => (None, "done: the handler's verdict is passed".to_owned()),
            RunState::NeedsReview => (None, "done: the handler requested a review".to_owned()),
            RunState::Failed => (None, "done: the handler's verdict is failed".to_owned()),
            RunState::Cancelled => (None, cancelled(run, context)),
        };
        Self::new(run_state_name(state), at, because)
    }
}

fn waiting(run: &RunRecord, context: &RunContext<'_>) -> (Option<Timestamp>, String) {
    let obstacle = obstacle(run, context).map(|why| format!("; but {why}")).unwrap_or_default();
    let Some(due) = run.next_retry_at.or(run.due_at).filter(|due| *due > context.now) else {
        return (None, format!("ready: the next free worker claims the run{obstacle}"));
    };
    let reason = match (run.next_retry_at, context.last_rule) {
        (Some(_), Some(rule)) => format!("the last attempt failed ({rule})"),
        (Some(_), None) => "the last attempt failed".to_owned(),
        (None, _) => "the run was submitted to start no sooner".to_owned(),
    };
    let wait = apart(context.now, due);
    (Some(due), format!("waits until {due}, for {wait} more, because {reason}{obstacle}"))
}

/// The reason why workers cannot claim a ready run.
fn obstacle(run: &RunRecord, context: &RunContext<'_>) -> Option<String> {
    if let Some(PausedQueue { by, .. }) = context.paused {
        let reason = by.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        return Some(format!("{} paused the queue at {}{reason}", by.actor, by.at));
    }
    let unroutable = context.declared.and_then(|declared| unroutable(run, declared));
    unroutable.or_else(|| context.gate.map(str::to_owned))
}

/// Why the configuration lets no worker claim a run.
fn unroutable(run: &RunRecord, declared: &Declarations) -> Option<String> {
    let Some(queue) = declared.queue(&run.queue) else {
        return Some(format!("the configuration declares no queue {:?}: unroutable", run.queue));
    };
    let allowed = queue.categories.as_ref()?;
    (!allowed.contains(&run.category))
        .then(|| format!("the queue does not accept the category {:?}", run.category))
}

fn held(run: &RunRecord, context: &RunContext<'_>) -> (Option<Timestamp>, String) {
    let attempt = run.attempts.saturating_add(1);
    let owner = run.lease_owner.as_ref().map_or("a worker", |owner| owner.0.as_str());
    let Some(until) = run.lease_until else {
        return (None, format!("attempt {attempt} is under way, held by {owner}"));
    };
    let because = if until > context.lease_now {
        let rest = apart(context.lease_now, until);
        format!("attempt {attempt} is under way, held by {owner} for {rest} more unless renewed")
    } else {
        format!(
            "the lease of {owner} has expired; a worker of the queue decides about attempt {attempt}"
        )
    };
    (Some(until), because)
}

fn given_up(run: &RunRecord, context: &RunContext<'_>) -> String {
    let why = context.last_rule.unwrap_or("gave up");
    format!("nothing: {why}; `redrive runs retry {}` starts a new count", run.id)
}

fn cancelled(run: &RunRecord, context: &RunContext<'_>) -> String {
    let cancelled = context.journal.iter().rev().find(|row| row.entry.action == "run.cancel");
    let by = cancelled
        .map_or_else(String::new, |row| format!(" by {} at {}", row.entry.actor, row.entry.at));
    format!("nothing: cancelled{by}; `redrive runs retry {}` requeues the run", run.id)
}
