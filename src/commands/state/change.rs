//! What every command that changes partitions has in common: the flags_given, the dry run, the ending.
//!
//! All of it is the engine's [`Control`](redrive_engine::Control); here is what a person meets.

use clap::Args;
use redrive::{
    AuditContext, Lane, PartitionAction, PartitionCommand, PartitionFilter, PartitionSelection,
    RunMode,
};

use super::{change_listing::PartitionChangeListing, partition_selector::PartitionSelector};
use crate::{
    confirm::confirm,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
};

/// More partitions than this are asked about.
pub(super) const CONFIRM_ABOVE: u64 = 20;

/// What every changing command has.
#[derive(Debug, Args)]
pub(super) struct ChangeFlags {
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Do not ask, however many there are
    #[arg(long)]
    pub(super) yes: bool,

    /// Do not ask, and go on where the raw sink holds no run
    #[arg(long)]
    pub(super) force: bool,

    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
}

/// What commands that select by filter have.
#[derive(Debug, Args)]
pub(super) struct SelectedPartitions {
    #[command(flatten)]
    pub(super) partitions: PartitionSelector,

    /// All of them: without a filter nothing is done unless you say so
    #[arg(long)]
    pub(super) all: bool,

    #[command(flatten)]
    pub(super) flags_given: ChangeFlags,
}

/// With whom an attempt competes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LaneName {
    /// With what somebody waits for
    Fresh,
    /// With history
    Backfill,
}

impl From<LaneName> for Lane {
    fn from(name: LaneName) -> Self {
        match name {
            LaneName::Fresh => Self::Fresh,
            LaneName::Backfill => Self::Backfill,
        }
    }
}

/// A change that is asked for.
pub(super) struct PartitionChangeRequest {
    pub(super) action: PartitionAction,
    /// Its command, as it is written and as the journal has it.
    pub(super) command: &'static str,
    pub(super) selection: PartitionSelection,
    /// What of the selection the journal tells.
    pub(super) filter: PartitionFilter,
    /// Flags of its own that were given.
    pub(super) flags: Vec<String>,
    pub(super) flags_given: ChangeFlags,
    /// More than this are asked about.
    pub(super) confirm_above: u64,
}

impl PartitionChangeRequest {
    /// By a filter, which must not be empty.
    pub(super) fn by_filter(
        action: PartitionAction,
        command: &'static str,
        selected: SelectedPartitions,
    ) -> Result<Self, CommandError> {
        let filter = selected.partitions.filter()?;
        if filter.is_empty() && !selected.all {
            let message = "no partitions are named; nothing was changed";
            return Err(CommandError::new(Exit::Refused, message)
                .help("name them by filters such as --source NAME, or say --all"));
        }
        let flags = if selected.all { vec!["--all".to_owned()] } else { Vec::new() };
        Ok(Self {
            action,
            command,
            selection: PartitionSelection::Filter(filter.clone()),
            filter,
            flags,
            flags_given: selected.flags_given,
            confirm_above: CONFIRM_ABOVE,
        })
    }

    /// With a flag of its own, if it was given.
    pub(super) fn with_flag(mut self, flag: &str, given: bool) -> Self {
        if given {
            self.flags.push(flag.to_owned());
        }
        self
    }

    /// Does it, or shows what it would do.
    pub(super) async fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let missing =
            if self.action.makes_entries() { IfMissing::Create } else { IfMissing::Refuse };
        let ops = OpenStore::open(context, missing).await?;
        let command = self.order();
        if self.flags_given.dry_run {
            return self.sweep(&ops, &command, RunMode::DryRun, context).await;
        }
        if !self.flags_given.yes && !self.flags_given.force {
            let count = ops.partitions().count(&command, &self.selection).await;
            let count = count.map_err(|error| ops.store_error(error))?;
            if count > self.confirm_above {
                let (command, url) = (self.command, &ops.chosen.url);
                confirm(&format!("{command}: change {count} partitions in {url}?"), false)?;
            }
        }
        self.sweep(&ops, &command, RunMode::Real, context).await
    }

    fn order(&self) -> PartitionCommand {
        let ChangeFlags { yes, force, .. } = self.flags_given;
        let mut flags = self.flags.clone();
        let given = [("--yes", yes), ("--force", force)];
        flags.extend(given.iter().filter(|(_, given)| *given).map(|(flag, _)| (*flag).to_owned()));
        let order = AuditContext {
            by: operator(self.flags_given.reason.clone()),
            command: self.command.to_owned(),
            filter: Some(self.filter.clone()),
            flags,
        };
        let command = PartitionCommand::new(self.action, order);
        if force { command.forced() } else { command }
    }

    async fn sweep(
        &self,
        ops: &OpenStore,
        command: &PartitionCommand,
        mode: RunMode,
        context: &Context,
    ) -> Result<Exit, CommandError> {
        let mut changes = PartitionChangeListing::new(mode, context.output);
        let mut sweep = ops.partitions().sweep(command, &self.selection, mode);
        let stopped = loop {
            match sweep.next().await {
                Ok(Some(page)) => changes.add(page)?,
                Ok(None) => break None,
                Err(error) => break Some(ops.store_error(error)),
            }
        };
        if let Some(failure) = stopped {
            changes.end(false)?;
            return Err(failure.help("what was not reached is as it was; say it again for that"));
        }
        if changes.is_empty() {
            let message = "no partition matches; nothing was changed";
            return Err(CommandError::new(Exit::Refused, message)
                .help("`redrive state inspect` shows what there is"));
        }
        changes.end(sweep.has_more_pending())
    }
}
