//! Runs of queues.

use std::collections::HashMap;

use redrive_core::{RunEvent, RunId, RunState, Unit};
use redrive_store::{
    PageLimit, PlanAction, Result, RunAction, RunChange, RunRecord, Selection,
    SelectionTerm as Term, StateFilter,
};

use super::{
    ActionDeclaration as Action, ActionOptions, BATCH, Button, ChangeRequest, ChangeResult,
    Changeable, Column, ColumnKind as Kind, Page, Resource, UnitChange, column::text, state,
    waiting,
};
use crate::Ops;

impl Resource for RunRecord {
    type Id = RunId;

    const NOUN: &'static str = "run";
    const HAS_DATA: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("id", Kind::Id, |run| run.id.to_string()),
        Column::new("queue", Kind::Text, |run| run.queue.clone()),
        Column::new("category", Kind::Text, |run| run.category.clone()),
        Column::new("state", Kind::State, |run| run_state_name(run.state()).to_owned()),
        Column::new("attempts", Kind::Number, |run| run.attempts.to_string()),
        Column::on_pages("submitted", Kind::Time, |run| run.submitted_at.to_string()),
        Column::new("next retry", Kind::Time, |run| text(&run.next_retry_at)),
        Column::on_pages("last failure", Kind::Time, |run| text(&run.last_failure_at)),
        Column::new("cause", Kind::Cause, |run| text(&run.fingerprint)),
        Column::new("error", Kind::Message, |run| text(&run.error_message)),
    ];
    const TERMS: &'static [Term] = &[
        Term::Queue,
        Term::Category,
        Term::Class,
        Term::Code,
        Term::Cause,
        Term::Error,
        Term::FailedSince,
        Term::FailedUntil,
    ];
    const STATES: &'static [(&'static str, StateFilter)] = &[
        ("discovered", state("discovered")),
        ("processing", state("processing")),
        ("passed", state("passed")),
        ("needs_review", state("needs_review")),
        ("failed", state("failed")),
        ("error", state("error")),
        ("waiting", waiting("error", true)),
        ("given_up", waiting("error", false)),
        ("cancelled", state("cancelled")),
    ];

    fn id(&self) -> RunId {
        self.id
    }

    async fn page(
        ops: &Ops,
        selection: &Selection,
        after: Option<&RunId>,
        limit: PageLimit,
    ) -> Result<Page<Self>> {
        let after = after.copied().unwrap_or(RunId(limit.order.start()));
        let rows = ops.store().runs_page(selection, after, limit).await?;
        Ok(Page { has_more: limit.is_reached(&rows), rows })
    }

    async fn by_id(ops: &Ops, ids: &[RunId]) -> Result<Vec<Self>> {
        ops.store().runs_by_id(ids).await
    }
}

/// The name in JSON and in lists.
pub fn run_state_name(state: RunState) -> &'static str {
    match state {
        RunState::WaitingForRetry => "waiting_for_retry",
        RunState::GivenUp => "given_up",
        state => state.status().name(),
    }
}

/// Runs by id come with payloads of up to a megabyte each.
const PREVIEW_BATCH: usize = 16;

impl Changeable for RunRecord {
    type Action = RunAction;

    const COMMAND: &'static str = "runs";
    const EXAMPLE: &'static str = "run:17";
    const ACTIONS: &'static [Action<Self>] = &[
        Action::new("retry", "Retry runs, with a new count of attempts", |_| RunAction::Retry)
            .command(RETRY_HELP)
            .states(&[waiting("error", false)])
            .waiting(waiting("error", true))
            .for_all(|_| true)
            .buttons(&[Button::new("Retry now", |run| run.state().apply(RunEvent::Retry).is_ok())]),
        Action::new("cancel", "Cancel runs, including those in progress", |_| RunAction::Cancel)
            .command(CANCEL_HELP)
            .states(&[state("discovered"), state("processing"), state("error")])
            .destructive()
            .for_all(|_| true)
            .buttons(&[Button::new("Cancel", |run| run.state().apply(RunEvent::Cancel).is_ok())]),
    ];

    fn plan_action(action: RunAction, _: &ActionOptions) -> Option<PlanAction> {
        Some(PlanAction::Run(action))
    }

    fn unit(id: &RunId) -> Unit {
        Unit::Run(*id)
    }

    async fn change(
        ops: &Ops,
        action: RunAction,
        request: &ChangeRequest<'_>,
        ids: &[RunId],
        report: &mut (dyn FnMut(Vec<UnitChange>) + Send),
    ) -> Result<()> {
        let ChangeRequest { by, dry_run, .. } = request;
        for batch in ids.chunks(if *dry_run { PREVIEW_BATCH } else { BATCH }) {
            let changes: Vec<RunChange> = match action {
                _ if *dry_run => {
                    let runs = ops.store().runs_by_id(batch).await?;
                    let states: HashMap<RunId, RunState> =
                        runs.iter().map(|run| (run.id, run.state())).collect();
                    action.changes(batch, states).into_iter().map(|(_, change)| change).collect()
                }
                RunAction::Retry => ops.store().retry_runs(batch, by).await?,
                RunAction::Cancel => ops.store().cancel_runs(batch, by).await?,
            };
            let changes = batch.iter().zip(changes);
            report(changes.map(|(id, change)| unit_change(*id, change, *dry_run)).collect());
        }
        Ok(())
    }
}

const RETRY_HELP: &str = "\
A retried run is ready at once, with a new count of attempts; its history stays. Filters select runs that were given
up, unless --state says otherwise. Runs that passed, are ready or in progress are not changed. Asks for confirmation
before more than 20 runs.
Exit codes: 0 all changed; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive runs retry 17 18
  redrive runs retry --queue verify --dry-run
  redrive runs retry --queue verify --state needs-review --yes --reason 'rules were fixed'";

const CANCEL_HELP: &str = "\
Cancelling a run in progress revokes its lease: the worker stops the handler at its next renewal and discards the
result. Filters select runs that have not ended, unless --state says otherwise; runs that have ended are not changed.
Asks for confirmation before more than 20 runs.
Exit codes: 0 all changed; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive runs cancel 17 --reason 'sent by mistake'
  redrive runs cancel --queue verify --dry-run
  redrive runs cancel --queue verify --state discovered --yes";

fn unit_change(id: RunId, change: RunChange, dry_run: bool) -> UnitChange {
    let unit = Unit::Run(id);
    match change {
        RunChange::Done(before) => {
            UnitChange::new(unit, ChangeResult::done(dry_run)).was(run_state_name(before))
        }
        RunChange::Refused(before) => {
            let why = format!("the run is {}", before.name());
            UnitChange::refused(unit, why).was(run_state_name(before))
        }
        RunChange::Unknown => UnitChange::unknown(unit, RunRecord::NOUN),
    }
}
