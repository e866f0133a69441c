//! `redrive pipeline status`: prints the status of a run.

use clap::Args;

use super::{record::print, run_selector::PipelineRunSelector};
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Every sample that was read is counted once: total = succeeded + skipped + dlq + pending. The counts include the
samples that `redrive prune` removed; `pruned` is their number.

Examples:
  redrive pipeline status                   the newest run
  redrive pipeline status --pipeline score
  redrive pipeline status 3 -o json")]
pub(crate) struct PipelineStatusArgs {
    #[command(flatten)]
    run: PipelineRunSelector,
}

pub(crate) async fn run(args: PipelineStatusArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let run = args.run.find(&ops).await?;
    print(&run, &ops, context).await?;
    Ok(Exit::Ok)
}
