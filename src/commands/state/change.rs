//! Shared by all commands that change partitions: flags, confirmation, dry run and exit code.
//!
//! The engine's [`Control`](redrive_engine::Control) makes the changes.

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

/// More partitions than this need a confirmation.
pub(super) const CONFIRM_ABOVE: u64 = 20;

/// A note is printed each time this many partitions are through.
const PROGRESS_EVERY: u64 = 10_000;

#[derive(Debug, Args)]
pub(super) struct ChangeOptions {
    /// Show what would change, without changing anything
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Skip the confirmation
    #[arg(long)]
    pub(super) yes: bool,

    /// Include partitions whose data was judged and is gone from the raw sink; the confirmation needs --yes
    #[arg(long)]
    pub(super) force: bool,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct SelectedPartitions {
    #[command(flatten)]
    pub(super) partitions: PartitionSelector,

    /// Select all partitions; required if there is no filter
    #[arg(long)]
    pub(super) all: bool,

    #[command(flatten)]
    pub(super) options: ChangeOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LaneName {
    /// Compete with fresh data
    Fresh,
    /// Compete with backfill
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

pub(super) struct PartitionChangeRequest {
    pub(super) action: PartitionAction,
    /// The command for the journal, such as `state retry`.
    pub(super) command: &'static str,
    pub(super) selection: PartitionSelection,
    /// The selection as the journal records it.
    pub(super) filter: PartitionFilter,
    /// The command's own flags for the journal.
    pub(super) flags: Vec<String>,
    pub(super) options: ChangeOptions,
    /// More partitions than this need a confirmation.
    pub(super) confirm_above: u64,
}

impl PartitionChangeRequest {
    /// Selects by filter. An empty filter needs `--all`.
    pub(super) fn by_filter(
        action: PartitionAction,
        command: &'static str,
        selected: SelectedPartitions,
    ) -> Result<Self, CommandError> {
        let filter = selected.partitions.filter()?;
        if filter.is_empty() && !selected.all {
            let message = "no partitions are selected; nothing was changed";
            return Err(CommandError::new(Exit::Refused, message)
                .help("select partitions by filters such as --source NAME, or pass --all"));
        }
        let flags = if selected.all { vec!["--all".to_owned()] } else { Vec::new() };
        Ok(Self {
            action,
            command,
            selection: PartitionSelection::Filter(filter.clone()),
            filter,
            flags,
            options: selected.options,
            confirm_above: CONFIRM_ABOVE,
        })
    }

    /// Adds a flag for the journal, if it was given.
    pub(super) fn with_flag(mut self, flag: &str, given: bool) -> Self {
        if given {
            self.flags.push(flag.to_owned());
        }
        self
    }

    /// Makes the change, or shows it in a dry run.
    pub(super) async fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let missing = match (self.action.makes_entries(), self.options.dry_run) {
            (true, false) => IfMissing::Create,
            (true, true) => IfMissing::Imagine,
            (false, _) => IfMissing::Refuse,
        };
        let ops = OpenStore::open(context, missing).await?;
        let command = self.partition_command();
        if self.options.dry_run {
            return self.sweep(&ops, &command, RunMode::DryRun, context).await;
        }
        if !self.options.yes {
            let count = ops.partitions().count(&command, &self.selection).await;
            let count = count.map_err(|error| ops.store_error(error))?;
            if count > self.confirm_above {
                let (command, url) = (self.command, &ops.chosen.url);
                confirm(&format!("{command}: change {count} partitions in {url}?"), false)?;
            }
        }
        self.sweep(&ops, &command, RunMode::Real, context).await
    }

    fn partition_command(&self) -> PartitionCommand {
        let ChangeOptions { yes, force, .. } = self.options;
        let mut flags = self.flags.clone();
        let given = [("--yes", yes), ("--force", force)];
        flags.extend(given.iter().filter(|(_, given)| *given).map(|(flag, _)| (*flag).to_owned()));
        let audit = AuditContext {
            by: operator(self.options.reason.clone()),
            command: self.command.to_owned(),
            filter: Some(self.filter.clone()),
            flags,
        };
        let command = PartitionCommand::new(self.action, audit);
        if force { command.forced() } else { command }
    }

    async fn sweep(
        &self,
        ops: &OpenStore,
        command: &PartitionCommand,
        mode: RunMode,
        context: &Context,
    ) -> Result<Exit, CommandError> {
        let mut listing = PartitionChangeListing::new(mode, context.output);
        let mut sweep = ops.partitions().sweep(command, &self.selection, mode);
        let mut seen: u64 = 0;
        let stopped = loop {
            match sweep.next().await {
                Ok(Some(page)) => {
                    let before = seen / PROGRESS_EVERY;
                    seen += page.len() as u64;
                    listing.add(page)?;
                    if seen / PROGRESS_EVERY > before {
                        context.output.note(&format!("{}: {seen} partitions so far", self.command));
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(ops.store_error(error)),
            }
        };
        if let Some(error) = stopped {
            listing.end(false)?;
            return Err(
                error.help("the other partitions are unchanged; run the command again for them")
            );
        }
        if listing.is_empty() {
            let message = "no partition matches; nothing was changed";
            return Err(CommandError::new(Exit::Refused, message)
                .help("`redrive state inspect` shows the partitions"));
        }
        listing.end(sweep.has_more_pending())
    }
}
