//! `redrive state resume` (PAR-9).

use clap::Args;
use redrive::PartitionAction;

use super::change::{PartitionChangeRequest, SelectedPartitions};
use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Work on the partitions that match and are paused goes on. Asks before more than 20.
Exit codes: 0 all done, or not paused; 3 some; 1 none; 4 a rail refused, nothing changed.

Examples:
  redrive state resume --source ads
  redrive state resume --all --yes")]
pub(crate) struct StateResumeArgs {
    #[command(flatten)]
    selected: SelectedPartitions,
}

/// Runs `state resume`.
pub(crate) async fn run(args: StateResumeArgs, context: &Context) -> Result<Exit, CommandError> {
    let action = PartitionAction::Resume;
    PartitionChangeRequest::by_filter(action, "state resume", args.selected)?.run(context).await
}
