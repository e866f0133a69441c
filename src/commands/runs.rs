//! `redrive runs submit | list | show | retry | edit | cancel | note | stats`: runs of queues (RUN-6). Columns, filters and
//! actions are declared in `redrive-ops`, `resources/runs.rs`.

mod batch_submitter;
mod line_reader;
mod submit;

mod edit;

mod stats;

use clap::{Args, Subcommand};
use redrive_store::RunRecord;

pub(crate) use line_reader::{InputLine, LineReader, MAX_LINE_BYTES};

use crate::{
    action_command::ActionCommand,
    context::Context,
    exit::{CommandError, Exit},
    resource::{ListArgs, ShowArgs, list, show},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive runs submit --queue verify --payload '{\"order\": 7}'
  redrive runs submit --from orders.jsonl
  redrive runs list --queue verify --state given-up
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
    #[command(after_help = "\
Runs are sorted by id. To get the next page, pass the last id to --after.

Examples:
  redrive runs list
  redrive runs list --queue verify --state given-up
  redrive runs list --limit 10000 --after 10000 -o jsonl")]
    List(ListArgs<RunRecord>),
    /// Show all fields of runs
    #[command(after_help = "\
`redrive why run:ID` explains the attempts of a run. Exit code 3 means that some of the runs do not
exist, 1 that none does.

Examples:
  redrive runs show 17
  redrive runs show 17 18 -o json")]
    Show(ShowArgs<RunRecord>),
    #[command(flatten)]
    Act(ActionCommand<RunRecord>),
    /// Replace the payload of a run that waits or was given up
    Edit(edit::RunsEditArgs),
    /// Show the counts and ages of every queue
    Stats(stats::RunsStatsArgs),
}

pub(crate) async fn run(args: RunsArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        RunsCommand::Submit(args) => submit::run(args, context).await,
        RunsCommand::List(args) => list(args, true, context).await,
        RunsCommand::Show(args) => show(args, context).await,
        RunsCommand::Edit(args) => edit::run(args, context).await,
        RunsCommand::Act(action) => action.run(context).await,
        RunsCommand::Stats(args) => stats::run(args, context).await,
    }
}
