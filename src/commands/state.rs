//! `redrive state …`: what operators see of partitions and do to them (PAR-8, PAR-9).

mod which;

mod row;

mod change;
mod changed;

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

pub(crate) use which::{Which, parse_partition};

use crate::{
    context::Context,
    exit::{Exit, Failure},
};

/// The arguments of `state`.
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
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Send failed partitions back: the data plane tries them again
    Retry(retry::Arguments),
    /// Do good partitions again; they stay good until a new run is
    Reprocess(reprocess::Arguments),
    /// Ask for the days of a range
    Backfill(backfill::Arguments),
    /// End the retrying of failed partitions
    MarkTerminal(mark_terminal::Arguments),
    /// Allow retrying again; they stay failed
    ClearTerminal(clear_terminal::Arguments),
    /// Let nothing be claimed or retried of partitions
    Pause(pause::Arguments),
    /// Let it go on
    Resume(resume::Arguments),
    /// Show partitions, and what comes next for each
    Inspect(inspect::Arguments),
    /// Show the attempts at partitions
    History(history::Arguments),
    /// Show what was done to partitions, by whom and why
    Audit(audit::Arguments),
    /// Show the days that should be good by now and are not
    Gaps(gaps::Arguments),
    /// Check every partition against its ledger and its raw data
    Verify(verify::Arguments),
}

/// Runs `state`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Retry(arguments) => retry::run(arguments, context).await,
        Action::Reprocess(arguments) => reprocess::run(arguments, context).await,
        Action::Backfill(arguments) => backfill::run(arguments, context).await,
        Action::MarkTerminal(arguments) => mark_terminal::run(arguments, context).await,
        Action::ClearTerminal(arguments) => clear_terminal::run(arguments, context).await,
        Action::Pause(arguments) => pause::run(arguments, context).await,
        Action::Resume(arguments) => resume::run(arguments, context).await,
        Action::Inspect(arguments) => inspect::run(arguments, context).await,
        Action::History(arguments) => history::run(arguments, context).await,
        Action::Audit(arguments) => audit::run(arguments, context).await,
        Action::Gaps(arguments) => gaps::run(arguments, context).await,
        Action::Verify(arguments) => verify::run(arguments, context).await,
    }
}
