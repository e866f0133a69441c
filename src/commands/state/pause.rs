//! `redrive state pause`: pauses partitions (PAR-9).

use clap::Args;
use redrive::PartitionAction;

use super::change::{PartitionChangeRequest, SelectedPartitions};
use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Workers do not claim paused partitions, and the daemon does not retry them. An attempt in progress continues to
its verdict. Asks for confirmation before more than 20.
Exit codes: 0 all done, or paused already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state pause --source ads --since 2026-01-01 --reason 'the API is down until noon'
  redrive state pause partition:ads/1234567890/campaign_daily/2026-01-31")]
pub(crate) struct StatePauseArgs {
    #[command(flatten)]
    selected: SelectedPartitions,
}

pub(crate) async fn run(args: StatePauseArgs, context: &Context) -> Result<Exit, CommandError> {
    let action = PartitionAction::Pause;
    PartitionChangeRequest::by_filter(action, "state pause", args.selected)?.run(context).await
}
