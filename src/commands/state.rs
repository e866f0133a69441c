//! `redrive state …`: shows and changes partitions (PAR-8, PAR-9).

mod partition_selector;

mod backfill;

mod inspect;

mod audit;
mod gaps;
mod history;
mod verify;

use clap::{Args, Subcommand};
use redrive_ops::views::PartitionView;

pub(crate) use partition_selector::PartitionSelector;

use crate::{
    action_command::ActionCommand,
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A partition is one day of one query for one customer of a source. Only the validator decides whether a partition
is good; these commands request attempts and show the results.

Examples:
  redrive state backfill --source ads --since 2026-01-01 --until 2026-01-31
  redrive state inspect --source ads --state failed
  redrive state retry --source ads --customer-id 1234567890 --dry-run
  redrive state inspect --state terminal
  redrive state verify")]
pub(crate) struct StateArgs {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Debug, Subcommand)]
enum StateCommand {
    #[command(flatten)]
    Act(ActionCommand<PartitionView>),
    /// Request the partitions of a range of days
    Backfill(backfill::StateBackfillArgs),
    /// Show partitions and what comes next for each
    Inspect(inspect::StateInspectArgs),
    /// Show the attempts of a partition
    History(history::StateHistoryArgs),
    /// Show the journal of partitions: who changed what and why
    Audit(audit::StateAuditArgs),
    /// Show expected days that are missing or not good yet
    Gaps(gaps::StateGapsArgs),
    /// Verify every partition against its ledger and its raw data
    Verify(verify::StateVerifyArgs),
}

pub(crate) async fn run(args: StateArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        StateCommand::Act(action) => action.run(context).await,
        StateCommand::Backfill(args) => backfill::run(args, context).await,
        StateCommand::Inspect(args) => inspect::run(args, context).await,
        StateCommand::History(args) => history::run(args, context).await,
        StateCommand::Audit(args) => audit::run(args, context).await,
        StateCommand::Gaps(args) => gaps::run(args, context).await,
        StateCommand::Verify(args) => verify::run(args, context).await,
    }
}
