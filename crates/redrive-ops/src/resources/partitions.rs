//! Partitions of sources.

use redrive_core::{InvalidUnit, PartitionKey, PartitionState, TerminalReason, Unit};
use redrive_engine::{
    ChangeOutcome, ChangeRefusal, PartitionCommand, PartitionOutcome, PartitionSelection, RunMode,
};
use redrive_store::{
    AuditContext, Lane, PageLimit, PartitionAction, PartitionRecord, Result, Selection,
    SelectionTerm as Term, StateFilter,
};

use super::{
    Action, ActionOptions, BATCH, ChangeRequest, ChangeResult, Changeable, Changes, Column,
    ColumnKind as Kind, Matching, Page, Resource, UnitChange, bare_id, column::text, state,
    waiting,
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
            let page = ops.store().partitions_page(selection, after.as_ref(), limit.rows).await?;
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

impl Action for PartitionAction {
    const NAMES: &'static [&'static str] =
        &["retry", "reprocess", "mark-terminal", "clear-terminal", "pause", "resume"];

    fn parse(name: &str, options: &ActionOptions) -> Option<Self> {
        let lane = options.lane;
        Some(match name {
            "retry" => Self::Retry {
                clear_terminal: options.clear_terminal,
                lane: lane.unwrap_or(Lane::Fresh),
            },
            "reprocess" => Self::Reprocess { lane: lane.unwrap_or(Lane::Backfill) },
            "mark-terminal" => Self::MarkTerminal,
            "clear-terminal" => Self::ClearTerminal,
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            _ => return None,
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Retry { .. } => "retry",
            Self::Reprocess { .. } => "reprocess",
            Self::Backfill { .. } => "backfill",
            Self::MarkTerminal => "mark-terminal",
            Self::ClearTerminal => "clear-terminal",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    fn options(name: &str) -> &'static [&'static str] {
        match name {
            "retry" => &["clear_terminal", "force", "lane"],
            "reprocess" => &["force", "lane"],
            _ => &[],
        }
    }

    /// The engine knows them.
    fn states(&self) -> &'static [StateFilter] {
        &[]
    }
}

impl Changeable for PartitionView {
    type Action = PartitionAction;

    fn unit(key: &PartitionKey) -> Unit {
        Unit::Partition(key.clone())
    }
}

impl Changes<PartitionAction> for PartitionView {
    async fn matching(
        ops: &Ops,
        request: &ChangeRequest<'_, PartitionAction>,
        max: usize,
    ) -> Result<Matching<PartitionKey>> {
        let command = command(request);
        let selection = PartitionSelection::Filter(Box::new(request.selection.clone()));
        let mut sweep = ops.partitions().sweep(&command, &selection, RunMode::DryRun);
        let mut keys = Vec::new();
        while keys.len() < max
            && let Some(page) = sweep.next_keys().await?
        {
            keys.extend(page);
        }
        keys.sort_unstable();
        keys.truncate(max);
        Ok(Matching { ids: keys, omits_unchanged: sweep.has_more_pending() })
    }

    async fn change(
        ops: &Ops,
        request: &ChangeRequest<'_, PartitionAction>,
        keys: &[PartitionKey],
        report: &mut (dyn FnMut(Vec<UnitChange>) + Send),
    ) -> Result<()> {
        let command = command(request);
        let mode = if request.dry_run { RunMode::DryRun } else { RunMode::Real };
        for batch in keys.chunks(BATCH) {
            let found = ops.store().partitions_by_key(batch).await?;
            let outcomes = ops.partitions().change_named(&command, batch, found, mode).await?;
            let change =
                |outcome| with_hint(partition_change(outcome, request.dry_run), request.action);
            report(outcomes.into_iter().map(change).collect());
        }
        Ok(())
    }
}

fn command(request: &ChangeRequest<'_, PartitionAction>) -> PartitionCommand {
    let audit = AuditContext {
        by: request.by.clone(),
        command: request.command.clone(),
        filter: Some(request.selection.clone()),
        flags: request.flags.clone(),
    };
    let command = PartitionCommand::new(request.action, audit);
    if request.options.force { command.forced() } else { command }
}

/// Names the command that is right for a good partition (FIX-6).
fn with_hint(change: UnitChange, action: PartitionAction) -> UnitChange {
    match (action, change.before, &change.why) {
        (PartitionAction::Retry { .. }, Some("success"), Some(why)) => {
            let why = format!("{why}; `state reprocess` extracts it again");
            change.because(why)
        }
        _ => change,
    }
}

/// The engine's answer for a partition.
pub fn partition_change(outcome: PartitionOutcome, dry_run: bool) -> UnitChange {
    let PartitionOutcome { key, change, .. } = outcome;
    let unit = Unit::Partition(key);
    match change {
        ChangeOutcome::Done(before) => {
            UnitChange::new(unit, ChangeResult::done(dry_run)).was(state_name(before))
        }
        ChangeOutcome::Already(state) => UnitChange::new(unit, ChangeResult::Already)
            .was(state_name(state))
            .because(format!("the partition is {}", state.name())),
        ChangeOutcome::Refused(refusal) => UnitChange {
            is_overridable: refusal.is_overridable(),
            ..UnitChange::refused(unit, refusal.to_string()).was(state_name(state_of(&refusal)))
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
fn state_name(state: PartitionState) -> &'static str {
    match state {
        PartitionState::Absent => "no_entry",
        PartitionState::Pending => "pending",
        PartitionState::Success => "success",
        PartitionState::Reprocessing => "reprocessing",
        PartitionState::Failed => "failed",
        PartitionState::Terminal => "terminal",
    }
}
