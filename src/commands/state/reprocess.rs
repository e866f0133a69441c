//! `redrive state reprocess` (PAR-9).

use clap::Args;
use redrive::PartitionAction;

use super::change::{LaneName, PartitionChangeRequest, SelectedPartitions};
use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Good partitions that match are extracted and judged again. They stay good throughout, and are read from
the run they have: a new run that is accepted takes its place, one that is rejected changes nothing of
that. The rails are those of `state retry`.
Exit codes: 0 all done, or asked for already; 3 some; 1 none; 4 a rail refused, nothing changed.

Examples:
  redrive state reprocess --source ads --query-name campaign_daily --since 2026-01-01 --dry-run
  redrive state reprocess partition:ads/1234567890/campaign_daily/2026-01-31 --reason 'new schema'")]
pub(crate) struct StateReprocessArgs {
    #[command(flatten)]
    selected: SelectedPartitions,

    /// With whom the attempts compete
    #[arg(long, value_enum, value_name = "LANE", default_value_t = LaneName::Backfill)]
    lane: LaneName,
}

/// Runs `state reprocess`.
pub(crate) async fn run(args: StateReprocessArgs, context: &Context) -> Result<Exit, CommandError> {
    let action = PartitionAction::Reprocess { lane: args.lane.into() };
    PartitionChangeRequest::by_filter(action, "state reprocess", args.selected)?.run(context).await
}
