//! Explains a run.

use std::collections::HashMap;

use redrive_core::{AttemptNumber, Cause, RunId, Unit};
use redrive_store::{
    AttemptOutcome, AttemptRecord, JournalRecord, MAX_PAGE, Result, RunRecord, UnitKind, UnitRow,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    Next,
    journal::read_journal,
    rule::{FailureCount, UnitPolicy},
    run_next::RunContext,
};
use crate::{
    Ops,
    views::{AttemptView, JournalView},
};

/// The explanation of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunExplanation {
    /// The unit, as `run:ID`.
    pub unit: String,
    pub run: RunRecord,
    /// Each attempt with the rule behind the decision.
    pub attempts: Vec<AttemptView>,
    pub journal: Vec<JournalView>,
    pub next: Next,
}

impl RunExplanation {
    pub(super) async fn read(id: RunId, ops: &Ops) -> Result<Option<Self>> {
        let (store, declared) = (ops.store(), ops.declared());
        let unit = Unit::Run(id).to_string();
        let Some(run) = store.runs_by_id(&[id]).await?.into_iter().next() else {
            return Ok(None);
        };
        let row = UnitRow::new(UnitKind::Run, id.0);
        let attempts = store.attempts_of(&row, AttemptNumber(0), MAX_PAGE).await?;
        let journal = read_journal(&unit, &**store).await?;
        let paused = store.paused_queues().await?;

        let policy = declared.and_then(|declared| declared.queue(&run.queue));
        let policy = policy.map(|queue| queue.policy.clone());
        let unit_policy = UnitPolicy::new(policy, ops.jitter_seed(), &Unit::Run(id));
        let actions = Actions { gives_up: "run.giveup", resets: "run.retry" };
        let attempts =
            explain_attempts(&attempts, run.attempts_at_reset, &journal, actions, &unit_policy);
        let gate = ops.gate_before(UnitKind::Run, &run.queue, &run.category).await?;
        let next = Next::of_run(
            &run,
            &RunContext {
                now: ops.now(),
                lease_now: store.now(),
                declared,
                paused: paused.iter().find(|paused| paused.queue == run.queue),
                journal: &journal,
                last_rule: attempts.last().and_then(|attempt| attempt.rule.as_deref()),
                gate: gate.as_deref(),
            },
        );
        let journal = journal.into_iter().map(JournalView::from).collect();
        Ok(Some(Self { unit, run, attempts, journal, next }))
    }
}

/// The journal actions that end or restart the count of failures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Actions {
    pub(super) gives_up: &'static str,
    pub(super) resets: &'static str,
}

/// Each attempt with its rule. The count restarts where an operator reset the unit.
pub(super) fn explain_attempts(
    attempts: &[AttemptRecord],
    attempts_at_reset: u32,
    journal: &[JournalRecord],
    actions: Actions,
    unit_policy: &UnitPolicy,
) -> Vec<AttemptView> {
    let gave_up = give_ups(journal, actions.gives_up);
    let mut resets = journal.iter().filter(|row| row.entry.action == actions.resets).peekable();
    let (mut count, mut passed) = (FailureCount::default(), false);
    let mut rows = Vec::new();
    for attempt in attempts {
        let mut was_reset = attempt.attempt.0 == attempts_at_reset.saturating_add(1);
        while resets.next_if(|reset| reset.entry.at <= attempt.started_at).is_some() {
            was_reset = true;
        }
        // A sample that was read again passes a stage a second time.
        if was_reset || passed {
            count = FailureCount::default();
        }
        passed = attempt.outcome == AttemptOutcome::Success;
        let reason = gave_up.get(&attempt.attempt.0).map(String::as_str);
        let rule = unit_policy.describe(attempt, count, reason);
        rows.push(AttemptView::from(attempt).with_rule(rule));
        let deferred = unit_policy.is_deferral(attempt, count);
        let lost = attempt.cause == Some(Cause::LostWorker) && !attempt.counted;
        count = FailureCount {
            failures: count.failures.saturating_add(attempt.counted.into()),
            deferrals: if deferred { count.deferrals.saturating_add(1) } else { 0 },
            lost: count.lost.saturating_add(lost.into()),
        };
    }
    rows
}

/// The reasons for giving up from the journal, by attempt number.
pub(super) fn give_ups(journal: &[JournalRecord], action: &str) -> HashMap<u32, String> {
    let reason = |row: &JournalRecord| {
        let details: Value = serde_json::from_str(&row.entry.details).ok()?;
        let attempt = u32::try_from(details.get("attempts")?.as_u64()?).ok()?;
        Some((attempt, details.get("reason")?.as_str()?.to_owned()))
    };
    let rows = journal.iter().filter(|row| row.entry.action == action);
    rows.filter_map(reason).collect()
}
