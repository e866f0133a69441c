//! `redrive state …`: shows and changes partitions (PAR-8, PAR-9).

mod partition_selector;

mod row;

mod change;
mod change_listing;

mod backfill;
mod clear_terminal;
mod mark_terminal;
mod pause;
mod reprocess;
mod resume;
mod retry;

mod audit;
mod gaps;
mod history;
mod inspect;
mod verify;

use clap::{Args, Subcommand};

pub(crate) use partition_selector::{PartitionSelector, parse_partition};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A partition is one day of one query for one customer of a source. Only the validator decides whether a partition
is good; these commands request attempts and show the results.

Examples:
  redrive state backfill --source ads --since 2026-01-01 --until 2026-01-31
  redrive state inspect --source ads --status failed
  redrive state retry --source ads --customer-id 1234567890 --dry-run
  redrive state inspect --terminal
  redrive state verify")]
pub(crate) struct StateArgs {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Debug, Subcommand)]
enum StateCommand {
    /// Retry failed partitions
    Retry(retry::StateRetryArgs),
    /// Extract good partitions again; they stay readable meanwhile
    Reprocess(reprocess::StateReprocessArgs),
    /// Request the partitions of a range of days
    Backfill(backfill::StateBackfillArgs),
    /// Mark failed partitions as terminal: they are no longer retried
    MarkTerminal(mark_terminal::StateMarkTerminalArgs),
    /// Clear the terminal mark; the partitions stay failed
    ClearTerminal(clear_terminal::StateClearTerminalArgs),
    /// Pause partitions: they are neither claimed nor retried
    Pause(pause::StatePauseArgs),
    /// Resume paused partitions
    Resume(resume::StateResumeArgs),
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
        StateCommand::Retry(args) => retry::run(args, context).await,
        StateCommand::Reprocess(args) => reprocess::run(args, context).await,
        StateCommand::Backfill(args) => backfill::run(args, context).await,
        StateCommand::MarkTerminal(args) => mark_terminal::run(args, context).await,
        StateCommand::ClearTerminal(args) => clear_terminal::run(args, context).await,
        StateCommand::Pause(args) => pause::run(args, context).await,
        StateCommand::Resume(args) => resume::run(args, context).await,
        StateCommand::Inspect(args) => inspect::run(args, context).await,
        StateCommand::History(args) => history::run(args, context).await,
        StateCommand::Audit(args) => audit::run(args, context).await,
        StateCommand::Gaps(args) => gaps::run(args, context).await,
        StateCommand::Verify(args) => verify::run(args, context).await,
    }
}
