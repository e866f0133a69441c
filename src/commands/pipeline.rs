//! `redrive pipeline run | resume | cancel | list | status | stats | output` (PIP-8).

mod counts;
mod record;
mod run_selector;

mod progress;
mod rate;
mod work;

mod resume;
mod run;

mod cancel;

mod list;
mod output;
mod stats;
mod status;

use clap::{Args, Subcommand};
use redrive::{PipelineRunId, PipelineStatus};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A pipeline sends every sample of its source through its stages. A stage that fails is tried again by its
policy; what fails for good is a dead letter (`redrive dlq`), and the rest goes on.

Examples:
  redrive pipeline run score
  redrive pipeline status                   of the newest run
  redrive pipeline stats 3                  retries, errors and reliability, stage by stage
  redrive pipeline output 3 > scored.jsonl
  redrive pipeline resume 3")]
pub(crate) struct PipelineArgs {
    #[command(subcommand)]
    command: PipelineCommand,
}

#[derive(Debug, Subcommand)]
enum PipelineCommand {
    /// Start a run of a pipeline and work on it
    Run(run::PipelineRunArgs),
    /// Go on with a run that was stopped, or whose worker was lost
    Resume(resume::PipelineResumeArgs),
    /// Stop a run; it can be resumed
    Cancel(cancel::PipelineCancelArgs),
    /// List runs, the newest first
    List(list::PipelineListArgs),
    /// Show how a run stands
    Status(status::PipelineStatusArgs),
    /// Show the retries, errors and reliability of each stage of a run
    Stats(stats::PipelineStatsArgs),
    /// Print the finished samples of a run as JSON lines
    Output(output::PipelineOutputArgs),
}

impl PipelineArgs {
    /// Whether it shows how the work goes on.
    pub(crate) fn shows_progress(&self) -> bool {
        matches!(self.command, PipelineCommand::Run(_) | PipelineCommand::Resume(_))
    }
}

/// Runs `pipeline`.
pub(crate) async fn run(args: PipelineArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        PipelineCommand::Run(args) => run::run(args, context).await,
        PipelineCommand::Resume(args) => resume::run(args, context).await,
        PipelineCommand::Cancel(args) => cancel::run(args, context).await,
        PipelineCommand::List(args) => list::run(args, context).await,
        PipelineCommand::Status(args) => status::run(args, context).await,
        PipelineCommand::Stats(args) => stats::run(args, context).await,
        PipelineCommand::Output(args) => output::run(args, context).await,
    }
}

/// The id of a run, as people write it.
pub(crate) fn parse_id(text: &str) -> Result<PipelineRunId, String> {
    let id = text.parse().ok().filter(|id: &PipelineRunId| id.0 > 0 && text == id.to_string());
    id.ok_or_else(|| "an id is a whole number from 1".to_owned())
}

/// A status, by its name.
fn parse_status(text: &str) -> Result<PipelineStatus, String> {
    PipelineStatus::from_name(text).ok_or_else(|| {
        let names = PipelineStatus::ALL.map(PipelineStatus::name);
        format!("the statuses are {}", names.join(", "))
    })
}
