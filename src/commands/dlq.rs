//! `redrive dlq list | show | export | reprocess`: samples that died (PIP-7).

mod record;
mod which;

mod causes;
mod list;

mod attempts;
mod show;

mod export;
mod reprocess;

use clap::{Args, Subcommand};
use redrive::SampleId;

use crate::{
    context::Context,
    exit::{Exit, Failure},
};

/// The arguments of `dlq`.
#[derive(Debug, Args)]
#[command(after_help = "\
A sample that fails for good at a stage of its pipeline is a dead letter. It is kept as it was before that
stage, with its error, until it is brought back.

Examples:
  redrive dlq list --group                  the causes, the most frequent first
  redrive dlq list --pipeline score --stage llm_call --code 500
  redrive dlq show 17
  redrive dlq export --to dead.jsonl
  redrive dlq reprocess --cause 5f0c2a91d3e4b768 --dry-run")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List dead letters by id, or what they died of
    List(list::Arguments),
    /// Show all that is known of some samples, with every attempt
    Show(show::Arguments),
    /// Write dead letters as JSON lines
    Export(export::Arguments),
    /// Bring dead letters back to the stage they died at
    Reprocess(reprocess::Arguments),
}

/// Runs `dlq`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    match arguments.action {
        Action::List(arguments) => list::run(arguments, context).await,
        Action::Show(arguments) => show::run(arguments, context).await,
        Action::Export(arguments) => export::run(arguments, context).await,
        Action::Reprocess(arguments) => reprocess::run(arguments, context).await,
    }
}

/// The id of a sample, as people write it.
pub(crate) fn parse_id(text: &str) -> Result<SampleId, String> {
    let id = text.parse().ok().filter(|id: &SampleId| id.0 > 0 && text == id.to_string());
    id.ok_or_else(|| "an id is a whole number from 1".to_owned())
}
