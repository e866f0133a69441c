//! `redrive state …`: what operators see of partitions and do to them (PAR-8, PAR-9).

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
A partition is one day of one query for one customer of a source. Only the validator says that it is good
or bad; these commands ask for another look, and show what there is.

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
    /// Send failed partitions back: the data plane tries them again
    Retry(retry::StateRetryArgs),
    /// Do good partitions again; they stay good until a new run is
    Reprocess(reprocess::StateReprocessArgs),
    /// Ask for the days of a range
    Backfill(backfill::StateBackfillArgs),
    /// End the retrying of failed partitions
    MarkTerminal(mark_terminal::StateMarkTerminalArgs),
    /// Allow retrying again; they stay failed
    ClearTerminal(clear_terminal::StateClearTerminalArgs),
    /// Let nothing be claimed or retried of partitions
    Pause(pause::StatePauseArgs),
    /// Let it go on
    Resume(resume::StateResumeArgs),
    /// Show partitions, and what comes next for each
    Inspect(inspect::StateInspectArgs),
    /// Show the attempts at partitions
    History(history::StateHistoryArgs),
    /// Show what was done to partitions, by whom and why
    Audit(audit::StateAuditArgs),
    /// Show the days that should be good by now and are not
    Gaps(gaps::StateGapsArgs),
    /// Check every partition against its ledger and its raw data
    Verify(verify::StateVerifyArgs),
}

/// Runs `state`.
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
