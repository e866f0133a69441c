//! `redrive runs submit | list | show | retry | cancel | stats` (RUN-6).

mod record;

mod batch_submitter;
mod line_reader;
mod submit;

mod list;
mod show;

mod change;
mod change_outcomes;

mod stats;

use clap::{Args, Subcommand};
use redrive::{RunId, RunStatus};

pub(crate) use line_reader::{InputLine, LineReader, MAX_LINE_BYTES};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive runs submit --queue verify --payload '{\"order\": 7}'
  redrive runs submit --from orders.jsonl
  redrive runs list --queue verify --status error
  redrive runs retry 17 18
  redrive runs stats")]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// Put runs into a queue: one by flags, or many as JSON lines
    Submit(submit::RunsSubmitArgs),
    /// List runs by id, a page at a time
    List(list::RunsListArgs),
    /// Show all that is known of some runs
    Show(show::RunsShowArgs),
    /// Send runs back to their queue, with a new count of attempts
    Retry(change::RunsRetryArgs),
    /// Stop runs, also those that a worker holds
    Cancel(change::RunsCancelArgs),
    /// Show how every queue stands
    Stats(stats::RunsStatsArgs),
}

/// Runs `runs`.
pub(crate) async fn run(args: RunsArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        RunsCommand::Submit(args) => submit::run(args, context).await,
        RunsCommand::List(args) => list::run(args, context).await,
        RunsCommand::Show(args) => show::run(args, context).await,
        RunsCommand::Retry(args) => change::retry(args, context).await,
        RunsCommand::Cancel(args) => change::cancel(args, context).await,
        RunsCommand::Stats(args) => stats::run(args, context).await,
    }
}

/// The id of a run, as people write it.
fn parse_id(text: &str) -> Result<RunId, String> {
    let id = text.parse().ok().filter(|id: &RunId| id.0 > 0 && text == id.to_string());
    id.ok_or_else(|| "an id is a whole number from 1".to_owned())
}

/// A status, by its name.
fn parse_status(text: &str) -> Result<RunStatus, String> {
    RunStatus::from_name(text).ok_or_else(|| {
        let names = RunStatus::ALL.map(RunStatus::name);
        format!("the statuses are {}", names.join(", "))
    })
}
