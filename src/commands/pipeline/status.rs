//! `redrive pipeline status`.

use clap::Args;

use super::{record::print, which::Which};
use crate::{
    context::{Context, Missing},
    exit::{Exit, Failure},
    ops::Ops,
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
    which: Which,
}

/// Runs `pipeline status`.
pub(crate) async fn run(args: PipelineStatusArgs, context: &Context) -> Result<Exit, Failure> {
    let ops = Ops::open(context, Missing::Refuse).await?;
    let run = args.which.find(&ops).await?;
    print(&run, &ops, context).await?;
    Ok(Exit::Ok)
}
