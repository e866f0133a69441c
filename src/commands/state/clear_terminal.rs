//! `redrive state clear-terminal` (PAR-9).

use clap::Args;
use redrive::PartitionAction;

use super::change::{PartitionChangeRequest, SelectedPartitions};
use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Takes [terminal] from the partitions that match and have it. They stay failed: the daemon retries them by
their policy, or `state retry` does. Asks before more than 20.
Exit codes: 0 all done, or not marked; 3 some; 1 none; 4 a rail refused, nothing changed.

Examples:
  redrive state clear-terminal --source ads --customer-id 1234567890 --reason 'open again'
  redrive state clear-terminal --all --dry-run")]
pub(crate) struct StateClearTerminalArgs {
    #[command(flatten)]
    selected: SelectedPartitions,
}

/// Runs `state clear-terminal`.
pub(crate) async fn run(
    args: StateClearTerminalArgs,
    context: &Context,
) -> Result<Exit, CommandError> {
    let action = PartitionAction::ClearTerminal;
    PartitionChangeRequest::by_filter(action, "state clear-terminal", args.selected)?
        .run(context)
        .await
}
