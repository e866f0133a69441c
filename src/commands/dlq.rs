//! `redrive dlq list | show | export | reprocess`: samples that died (PIP-7).

mod dead_letter_filter;
mod record;

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
    exit::{CommandError, Exit},
};

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
pub(crate) struct DlqArgs {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    /// List dead letters by id, or what they died of
    List(list::DlqListArgs),
    /// Show all that is known of some samples, with every attempt
    Show(show::DlqShowArgs),
    /// Write dead letters as JSON lines
    Export(export::DlqExportArgs),
    /// Bring dead letters back to the stage they died at
    Reprocess(reprocess::DlqReprocessArgs),
}

/// Runs `dlq`.
pub(crate) async fn run(args: DlqArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        DlqCommand::List(args) => list::run(args, context).await,
        DlqCommand::Show(args) => show::run(args, context).await,
        DlqCommand::Export(args) => export::run(args, context).await,
        DlqCommand::Reprocess(args) => reprocess::run(args, context).await,
    }
}

/// The id of a sample, as people write it.
pub(crate) fn parse_id(text: &str) -> Result<SampleId, String> {
    let id = text.parse().ok().filter(|id: &SampleId| id.0 > 0 && text == id.to_string());
    id.ok_or_else(|| "an id is a whole number from 1".to_owned())
}
