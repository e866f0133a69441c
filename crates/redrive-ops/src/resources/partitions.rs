//! Partitions of sources.

use redrive_core::{
    InvalidUnit, PartitionKey, PartitionState, PartitionStatus, TerminalReason, Unit,
};
use redrive_engine::{ChangeOutcome, ChangeRefusal, PartitionCommand, PartitionOutcome, RunMode};
use redrive_store::{
    AuditContext, Lane, PageLimit, PartitionAction, PartitionRecord, PlanAction, Result, Selection,
    SelectionTerm as Term, StateFilter,
};

use super::{
    ActionDeclaration as Action, ActionOption, ActionOptions, BATCH, Button, ChangeRequest,
    ChangeResult, Changeable, Column, ColumnKind as Kind, Page, Resource, UnitChange, bare_id,
    column::text, state, waiting,
};
use crate::{Ops, views::PartitionView};

impl Resource for PartitionView {
    type Id = PartitionKey;

    const NOUN: &'static str = "partition";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("source", Kind::Id, |partition| partition.source.clone()),
        Column::new("customer_id", Kind::Id, |partition| partition.customer_id.clone()),
        Column::new("query_name", Kind::Id, |partition| partition.query_name.clone()),
        Column::new("logical_date", Kind::Id, |partition| partition.logical_date.to_string()),
        Column::new("state", Kind::State, PartitionView::described_state),
        Column::new("attempts", Kind::Number, |partition| text(&partition.attempt_count)),
        Column::new("records", Kind::Number, |partition| text(&partition.record_count)),
        Column::new("updated at", Kind::Time, |partition| text(&partition.updated_at)),
        Column::on_pages("last failure", Kind::Time, |partition| text(&partition.last_failure_at)),
        Column::new("cause", Kind::Cause, |partition| text(&partition.fingerprint)),
        Column::new("error", Kind::Message, |partition| text(&partition.error_message)),
        Column::new("next", Kind::Text, |partition| partition.why.clone()),
    ];
    const TERMS: &'static [Term] = &[
        Term::Source,
        Term::CustomerId,
        Term::QueryName,
        Term::LogicalDate,
        Term::Since,
        Term::Until,
        Term::Class,
        Term::Code,
        Term::Cause,
        Term::Error,
        Term::FailedSince,
        Term::FailedUntil,
    ];
    const STATES: &'static [(&'static str, StateFilter)] = &[
        ("pending", state("pending")),
        ("success", state("success")),
        ("failed", state("failed")),
        ("waiting", waiting("failed", true)),
        ("terminal", waiting("failed", false)),
        ("given_up", waiting("failed", false)),
    ];

    fn id(&self) -> PartitionKey {
        self.key.clone()
    }

    fn parse_id(text: &str) -> std::result::Result<PartitionKey, String> {
        bare_id::<Self>(text).parse().map_err(|error: InvalidUnit| error.to_string())
    }

    fn exists(&self) -> bool {
        self.status.is_some()
    }

    /// The store does not know which failed partitions wait, so those are looked for page by page.
    async fn page(
        ops: &Ops,
        selection: &Selection,
        after: Option<&PartitionKey>,
        limit: PageLimit,
    ) -> Result<Page<Self>> {
        let (rules, now) = (ops.partitions().rules(), ops.now());
        let is_meant = |partition: &PartitionRecord| rules.selects(selection, partition, now);
        let (mut rows, mut after) = (Vec::new(), after.cloned());
        let max = limit.rows as usize;
        loop {
            let page = ops.store().partitions_page(selection, after.as_ref(), limit).await?;
            let has_more = page.len() >= max;
            after = page.last().map(|last| last.key.clone());
            let mut meant = page.into_iter().filter(is_meant);
            let fitting = meant.by_ref().take(max - rows.len());
            rows.extend(fitting.map(|partition| ops.show_partition(partition)));
            let has_more = has_more || meant.next().is_some();
            if !has_more || rows.len() >= max {
                return Ok(Page { rows, has_more });
            }
        }
    }

    async fn by_id(ops: &Ops, keys: &[PartitionKey]) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for key in keys {
            found.push(ops.inspect_partition(key).await?);
        }
        Ok(found)
    }
}

impl Changeable for PartitionView {
    type Action = PartitionAction;

    const COMMAND: &'static str = "state";
    const EXAMPLE: &'static str = "partition:ads/1234567890/campaign_daily/2026-01-31";
    const ACTIONS: &'static [Action<Self>] = &[
        Action::new("retry", "Retry failed partitions", |options| {
            let lane = options.lane.unwrap_or(Lane::Fresh);
            PartitionAction::Retry { clear_terminal: options.clear_terminal, lane }
        })
        .command(RETRY_HELP)
        .options(&[
            ActionOption::flag(
                "force",
                "Include partitions whose data was judged and is gone from the raw sink",
            ),
            ActionOption::flag(
                "clear_terminal",
                "Include terminal partitions: clear the mark of an operator, or exceed the \
                 limit of the policy once",
            ),
            ActionOption::lane(Lane::Fresh),
        ])
        .for_all(|_| true)
        .buttons(&[
            Button::new("Retry now", is_retried),
            Button::new("Retry anyway", is_terminal).with(&["clear_terminal"]),
        ]),
        Action::new(
            "reprocess",
            "Extract good partitions again; they stay readable meanwhile",
            |options| PartitionAction::Reprocess { lane: options.lane.unwrap_or(Lane::Backfill) },
        )
        .command(REPROCESS_HELP)
        .options(&[
            ActionOption::flag("force", "Include partitions whose data is gone from the raw sink"),
            ActionOption::lane(Lane::Backfill),
        ])
        .for_all(|selection| !selection.is_about_failures())
        .buttons(&[Button::new("Reprocess", is_good)]),
        Action::new(
            "mark-terminal",
            "Mark failed partitions as terminal: they are no longer retried",
            |_| PartitionAction::MarkTerminal,
        )
        .command(MARK_TERMINAL_HELP)
        .buttons(&[Button::new("Mark terminal", is_retried)]),
        Action::new(
            "clear-terminal",
            "Clear the terminal mark; the partitions stay failed",
            |_| PartitionAction::ClearTerminal,
        )
        .command(CLEAR_TERMINAL_HELP)
        .buttons(&[Button::new("Clear terminal", is_terminal)]),
        Action::new("pause", "Pause partitions: they are neither claimed nor retried", |_| {
            PartitionAction::Pause
        })
        .command(PAUSE_HELP)
        .for_all(|_| true)
        .buttons(&[Button::new("Pause", |partition| !partition.paused)]),
        Action::new("resume", "Resume paused partitions", |_| PartitionAction::Resume)
            .command(RESUME_HELP)
            .for_all(|_| true)
            .buttons(&[Button::new("Resume", |partition| partition.paused)]),
    ];

    fn unit(key: &PartitionKey) -> Unit {
        Unit::Partition(key.clone())
    }

    fn plan_action(action: PartitionAction, options: &ActionOptions) -> Option<PlanAction> {
        Some(match options.force {
            true => PlanAction::ForcedPartition(action),
            false => PlanAction::Partition(action),
        })
    }

    fn named(selection: &Selection) -> Option<PartitionKey> {
        selection.key()
    }

    async fn change(
        ops: &Ops,
        action: PartitionAction,
        request: &ChangeRequest<'_>,
        keys: &[PartitionKey],
        report: &mut (dyn FnMut(Vec<UnitChange>) + Send),
    ) -> Result<()> {
        let command = command(action, request);
        let mode = if request.dry_run { RunMode::DryRun } else { RunMode::Real };
        for batch in keys.chunks(BATCH) {
            let found = ops.store().partitions_by_key(batch).await?;
            let outcomes = ops.partitions().change_named(&command, batch, found, mode).await?;
            let change =
                |outcome| partition_hint(partition_change(outcome, request.dry_run), action);
            report(outcomes.into_iter().map(change).collect());
        }
        Ok(())
    }
}

fn is_good(partition: &PartitionView) -> bool {
    partition.status == Some(PartitionStatus::Success)
}

fn is_retried(partition: &PartitionView) -> bool {
    partition.status == Some(PartitionStatus::Failed) && !partition.terminal
}

fn is_terminal(partition: &PartitionView) -> bool {
    partition.status == Some(PartitionStatus::Failed) && partition.terminal
}

const RETRY_HELP: &str = "\
Failed partitions that match become pending, and a worker of their source tries them again. Their
attempt_count, current run and history stay unchanged. Filters match exactly. Terminal partitions, marked
by an operator or given up by their policy, need --clear-terminal; partitions whose data was judged and is gone
from the raw sink need --force. A failed extraction leaves no data, and needs no flag. Asks for confirmation before
more than 20.
Exit codes: 0 all done, or pending already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state retry --source ads --logical-date 2026-01-31
  redrive state retry --source ads --since 2026-01-01 --until 2026-01-31 --dry-run
  redrive state retry partition:ads/1234567890/campaign_daily/2026-01-31 --force
  redrive state retry --all --clear-terminal --yes --reason 'the API is back'";

const REPROCESS_HELP: &str = "\
Extracts and validates the good partitions that match again. They stay good and readable from their current run
meanwhile: an accepted new run replaces the current one, a rejected run does not. Asks for confirmation before
more than 20; partitions whose data is gone from the raw sink need --force.
Exit codes: 0 all done, or requested already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state reprocess --source ads --query-name campaign_daily --since 2026-01-01 --dry-run
  redrive state reprocess partition:ads/1234567890/campaign_daily/2026-01-31 --reason 'new schema'";

const MARK_TERMINAL_HELP: &str = "\
Adds [terminal] to the error_message of the failed partitions that match. Neither the daemon nor `state retry`
retries them until the mark is cleared, and consumers treat them as unavailable. Asks for confirmation before
more than 20.
Exit codes: 0 all done, or marked already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state mark-terminal --source ads --customer-id 1234567890 --reason 'the account is closed'
  redrive state mark-terminal partition:ads/1234567890/campaign_daily/2026-01-31 --dry-run";

const CLEAR_TERMINAL_HELP: &str = "\
Removes [terminal] from the error_message of the partitions that match. They stay failed; the daemon retries
them by their policy, or `state retry` does. Asks for confirmation before more than 20.
Exit codes: 0 all done, or not marked; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state clear-terminal --source ads --customer-id 1234567890 --reason 'open again'
  redrive state clear-terminal --all --dry-run";

const PAUSE_HELP: &str = "\
Workers do not claim paused partitions, and the daemon does not retry them. An attempt in progress continues to
its verdict. Asks for confirmation before more than 20.
Exit codes: 0 all done, or paused already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state pause --source ads --since 2026-01-01 --reason 'the API is down until noon'
  redrive state pause partition:ads/1234567890/campaign_daily/2026-01-31";

const RESUME_HELP: &str = "\
Resumes the paused partitions that match. Asks for confirmation before more than 20.
Exit codes: 0 all done, or not paused; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state resume --source ads
  redrive state resume --all --yes";

fn command(action: PartitionAction, request: &ChangeRequest<'_>) -> PartitionCommand {
    let audit = AuditContext {
        by: request.by.clone(),
        command: request.command.clone(),
        filter: Some(request.selection.to_json().to_string()),
        flags: request.flags.clone(),
    };
    let command = PartitionCommand::new(action, audit);
    if request.options.force { command.forced() } else { command }
}

/// Names the command that is right (FIX-6).
pub(crate) fn partition_hint(change: UnitChange, action: PartitionAction) -> UnitChange {
    let right = match (action, change.before.as_deref(), change.outcome) {
        (PartitionAction::Retry { .. }, Some("success"), _) => "state reprocess` extracts it again",
        (PartitionAction::Reprocess { .. }, Some("failed"), _) => "state retry` tries it again",
        (_, _, ChangeResult::Unknown) => "state backfill` adds it",
        _ => return change,
    };
    let why = change.why.clone().unwrap_or_default();
    change.because(format!("{why}; `{right}"))
}

/// The engine's answer for a partition.
pub fn partition_change(outcome: PartitionOutcome, dry_run: bool) -> UnitChange {
    let PartitionOutcome { key, change, .. } = outcome;
    let unit = Unit::Partition(key);
    match change {
        ChangeOutcome::Done(before) => {
            UnitChange::new(unit, ChangeResult::done(dry_run)).was(partition_state_name(before))
        }
        ChangeOutcome::Already(state) => UnitChange::new(unit, ChangeResult::Already)
            .was(partition_state_name(state))
            .because(format!("the partition is {}", state.name())),
        ChangeOutcome::Refused(refusal) => UnitChange {
            is_overridable: refusal.is_overridable(),
            ..UnitChange::refused(unit, refusal.to_string())
                .was(partition_state_name(state_of(&refusal)))
        },
    }
}

fn state_of(refusal: &ChangeRefusal) -> PartitionState {
    match refusal {
        ChangeRefusal::State(state) | ChangeRefusal::Moved(state) => *state,
        ChangeRefusal::Terminal(TerminalReason::Marked) => PartitionState::Terminal,
        ChangeRefusal::Terminal(TerminalReason::Policy(_)) => PartitionState::Failed,
        ChangeRefusal::NoRaw(state) | ChangeRefusal::RawUnavailable { state, .. } => *state,
        ChangeRefusal::NoEntry => PartitionState::Absent,
    }
}

/// The name in JSON.
pub(crate) fn partition_state_name(state: PartitionState) -> &'static str {
    match state {
        PartitionState::Absent => "no_entry",
        PartitionState::Pending => "pending",
        PartitionState::Success => "success",
        PartitionState::Reprocessing => "reprocessing",
        PartitionState::Failed => "failed",
        PartitionState::Terminal => "terminal",
    }
}
