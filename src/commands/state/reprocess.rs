//! `redrive state reprocess`: extracts good partitions again (PAR-9).

use clap::Args;
use redrive::PartitionAction;

use super::change::{LaneName, PartitionChangeRequest, SelectedPartitions};
use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Extracts and validates the good partitions that match again. They stay good and readable from their current run
meanwhile: an accepted new run replaces the current one, a rejected run does not. Asks for confirmation before
more than 20; partitions whose data is gone from the raw sink need --force.
Exit codes: 0 all done, or requested already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state reprocess --source ads --query-name campaign_daily --since 2026-01-01 --dry-run
  redrive state reprocess partition:ads/1234567890/campaign_daily/2026-01-31 --reason 'new schema'")]
pub(crate) struct StateReprocessArgs {
    #[command(flatten)]
    selected: SelectedPartitions,

    /// The lane of the attempts
    #[arg(long, value_enum, value_name = "LANE", default_value_t = LaneName::Backfill)]
    lane: LaneName,
}

pub(crate) async fn run(args: StateReprocessArgs, context: &Context) -> Result<Exit, CommandError> {
    let action = PartitionAction::Reprocess { lane: args.lane.into() };
    PartitionChangeRequest::by_filter(action, "state reprocess", args.selected)?.run(context).await
}
