//! `redrive dlq list | show | export | edit | note | reprocess`: dead letters of pipelines (PIP-7, FIX-2).

mod causes;
mod list;

mod attempts;
mod show;

mod edit;
mod export;
mod patch;
mod reprocess;

use clap::{Args, Subcommand};
use redrive_ops::views::SampleView;

use crate::{
    action_command::ActionCommand,
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A sample whose stage gave up is a dead letter. The store keeps the sample as it was before that stage, with
its error, until you reprocess it.

Examples:
  redrive dlq list --group                  count causes, the most frequent first
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
    /// List dead letters, or their causes
    List(list::DlqListArgs),
    /// Show all fields and attempts of samples
    Show(show::DlqShowArgs),
    /// Export dead letters as JSON lines
    Export(export::DlqExportArgs),
    /// Change the data of a dead letter in an editor
    Edit(edit::DlqEditArgs),
    #[command(flatten)]
    Act(ActionCommand<SampleView>),
    /// Return dead letters to the stage that failed
    Reprocess(reprocess::DlqReprocessArgs),
}

pub(crate) async fn run(args: DlqArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        DlqCommand::List(args) => list::run(args, context).await,
        DlqCommand::Show(args) => show::run(args, context).await,
        DlqCommand::Export(args) => export::run(args, context).await,
        DlqCommand::Edit(args) => edit::run(args, context).await,
        DlqCommand::Act(action) => action.run(context).await,
        DlqCommand::Reprocess(args) => reprocess::run(args, context).await,
    }
}
