//! `redrive state retry`: retries failed partitions (PAR-8).

use clap::Args;
use redrive::PartitionAction;

use super::change::{LaneName, PartitionChangeRequest, SelectedPartitions};
use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Failed partitions that match become pending, and a worker of their source tries them again. Their
attempt_count, current run and history stay unchanged. Filters match exactly. Terminal partitions, marked
by an operator or given up by their policy, need --clear-terminal; partitions whose data was judged and is gone
from the raw sink need --force. A failed extraction leaves no data, and needs no flag. Asks for confirmation before more than 20.
Exit codes: 0 all done, or pending already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state retry --source ads --logical-date 2026-01-31
  redrive state retry --source ads --since 2026-01-01 --until 2026-01-31 --dry-run
  redrive state retry partition:ads/1234567890/campaign_daily/2026-01-31 --force
  redrive state retry --all --clear-terminal --yes --reason 'the API is back'")]
pub(crate) struct StateRetryArgs {
    #[command(flatten)]
    selected: SelectedPartitions,

    /// Include terminal partitions: clear the mark of an operator, or exceed the limit of the policy once
    #[arg(long)]
    clear_terminal: bool,

    /// The lane of the attempts
    #[arg(long, value_enum, value_name = "LANE", default_value_t = LaneName::Fresh)]
    lane: LaneName,
}

pub(crate) async fn run(args: StateRetryArgs, context: &Context) -> Result<Exit, CommandError> {
    let clear_terminal = args.clear_terminal;
    let action = PartitionAction::Retry { clear_terminal, lane: args.lane.into() };
    let change = PartitionChangeRequest::by_filter(action, "state retry", args.selected)?;
    change.with_flag("--clear-terminal", clear_terminal).run(context).await
}
