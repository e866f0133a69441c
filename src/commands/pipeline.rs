//! `redrive pipeline run | resume | cancel | list | status | stats | output`: runs of pipelines (PIP-8).

mod counts;
mod record;
mod run_selector;

mod progress;
mod rate;
mod work;

mod resume;
mod run;

mod cancel;

mod output;
mod stats;
mod status;

use clap::{Args, Subcommand};
use redrive_ops::views::PipelineRunView;

use crate::{
    context::Context,
    exit::{CommandError, Exit},
    resource::{ListArgs, list},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A pipeline sends every sample of its source through its stages. A stage that fails is retried by its policy.
A sample whose stage gives up becomes a dead letter (`redrive dlq`); the other samples continue.

Examples:
  redrive pipeline run score
  redrive pipeline status                   the newest run
  redrive pipeline stats 3                  retries, errors and reliability of each stage
  redrive pipeline output 3 > scored.jsonl
  redrive pipeline resume 3")]
pub(crate) struct PipelineArgs {
    #[command(subcommand)]
    command: PipelineCommand,
}

#[derive(Debug, Subcommand)]
enum PipelineCommand {
    /// Start a run of a pipeline and process it
    Run(run::PipelineRunArgs),
    /// Resume a run that was stopped or interrupted
    Resume(resume::PipelineResumeArgs),
    /// Cancel a run; it can be resumed later
    Cancel(cancel::PipelineCancelArgs),
    /// List pipeline runs, newest first
    #[command(after_help = "\
Runs are sorted from new to old. To get the next page, pass the last id to --after. A + after the total means
that the source was not read to its end yet.

Examples:
  redrive pipeline list
  redrive pipeline list --pipeline score --state aborted
  redrive pipeline list -o json | jq '.[0].id'")]
    List(ListArgs<PipelineRunView>),
    /// Show the status of a run and where its samples are
    Status(status::PipelineStatusArgs),
    /// Show the retries, errors and reliability of each stage of a run
    Stats(stats::PipelineStatsArgs),
    /// Print the succeeded samples of a run as JSON lines
    Output(output::PipelineOutputArgs),
}

impl PipelineArgs {
    /// Whether the command displays progress.
    pub(crate) fn shows_progress(&self) -> bool {
        matches!(self.command, PipelineCommand::Run(_) | PipelineCommand::Resume(_))
    }
}

pub(crate) async fn run(args: PipelineArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        PipelineCommand::Run(args) => run::run(args, context).await,
        PipelineCommand::Resume(args) => resume::run(args, context).await,
        PipelineCommand::Cancel(args) => cancel::run(args, context).await,
        PipelineCommand::List(args) => list(args, false, context).await,
        PipelineCommand::Status(args) => status::run(args, context).await,
        PipelineCommand::Stats(args) => stats::run(args, context).await,
        PipelineCommand::Output(args) => output::run(args, context).await,
    }
}
