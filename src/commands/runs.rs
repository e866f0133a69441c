//! `redrive runs submit | list | show | retry | edit | cancel | stats`: runs of queues (RUN-6).

mod record;

mod batch_submitter;
mod line_reader;
mod submit;

mod list;
mod show;

mod change;
mod change_outcomes;
mod edit;

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
    /// Submit one run by flags, or many as JSON lines
    Submit(submit::RunsSubmitArgs),
    /// List runs
    List(list::RunsListArgs),
    /// Show all fields of runs
    Show(show::RunsShowArgs),
    /// Retry runs, with a new count of attempts
    Retry(change::RunsRetryArgs),
    /// Replace the payload of a run that waits or was given up
    Edit(edit::RunsEditArgs),
    /// Cancel runs, including those in progress
    Cancel(change::RunsCancelArgs),
    /// Show the counts and ages of every queue
    Stats(stats::RunsStatsArgs),
}

pub(crate) async fn run(args: RunsArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        RunsCommand::Submit(args) => submit::run(args, context).await,
        RunsCommand::List(args) => list::run(args, context).await,
        RunsCommand::Show(args) => show::run(args, context).await,
        RunsCommand::Edit(args) => edit::run(args, context).await,
        RunsCommand::Retry(args) => change::retry(args, context).await,
        RunsCommand::Cancel(args) => change::cancel(args, context).await,
        RunsCommand::Stats(args) => stats::run(args, context).await,
    }
}

fn parse_id(text: &str) -> Result<RunId, String> {
    let id = text.parse().ok().filter(|id: &RunId| id.0 > 0 && text == id.to_string());
    id.ok_or_else(|| "an id is a whole number, 1 or greater".to_owned())
}

fn parse_status(text: &str) -> Result<RunStatus, String> {
    RunStatus::from_name(text).ok_or_else(|| {
        let names = RunStatus::ALL.map(RunStatus::name);
        format!("the statuses are {}", names.join(", "))
    })
}
