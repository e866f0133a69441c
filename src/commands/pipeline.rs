//! `redrive pipeline run | resume | cancel | list | status | stats | output` (PIP-8).

mod counts;
mod record;
mod which;

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
    exit::{Exit, Failure},
};

/// The arguments of `pipeline`.
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
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start a run of a pipeline and work on it
    Run(run::Arguments),
    /// Go on with a run that was stopped, or whose worker was lost
    Resume(resume::Arguments),
    /// Stop a run; it can be resumed
    Cancel(cancel::Arguments),
    /// List runs, the newest first
    List(list::Arguments),
    /// Show how a run stands
    Status(status::Arguments),
    /// Show the retries, errors and reliability of each stage of a run
    Stats(stats::Arguments),
    /// Print the finished samples of a run as JSON lines
    Output(output::Arguments),
}

impl Arguments {
    /// Whether it shows how the work goes on.
    pub(crate) fn shows_progress(&self) -> bool {
        matches!(self.action, Action::Run(_) | Action::Resume(_))
    }
}

/// Runs `pipeline`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Run(arguments) => run::run(arguments, context).await,
        Action::Resume(arguments) => resume::run(arguments, context).await,
        Action::Cancel(arguments) => cancel::run(arguments, context).await,
        Action::List(arguments) => list::run(arguments, context).await,
        Action::Status(arguments) => status::run(arguments, context).await,
        Action::Stats(arguments) => stats::run(arguments, context).await,
        Action::Output(arguments) => output::run(arguments, context).await,
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
