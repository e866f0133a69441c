//! `redrive pipeline status`.

use clap::Args;

use super::{record::print, run_selector::PipelineRunSelector};
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Every sample that was read is in one place: total = succeeded + skipped + dlq + pending.
Those that `redrive prune` took away are still counted; `pruned` says how many they are.

Examples:
  redrive pipeline status                   of the newest run
  redrive pipeline status --pipeline score
  redrive pipeline status 3 -o json")]
pub(crate) struct PipelineStatusArgs {
    #[command(flatten)]
    run: PipelineRunSelector,
}

/// Runs `pipeline status`.
pub(crate) async fn run(args: PipelineStatusArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let run = args.run.find(&ops).await?;
    print(&run, &ops, context).await?;
    Ok(Exit::Ok)
}
