//! `redrive state clear-terminal`: clears the terminal mark (PAR-9).

use clap::Args;
use redrive::PartitionAction;

use super::change::{PartitionChangeRequest, SelectedPartitions};
use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Removes [terminal] from the error_message of the partitions that match. They stay failed; the daemon retries
them by their policy, or `state retry` does. Asks for confirmation before more than 20.
Exit codes: 0 all done, or not marked; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state clear-terminal --source ads --customer-id 1234567890 --reason 'open again'
  redrive state clear-terminal --all --dry-run")]
pub(crate) struct StateClearTerminalArgs {
    #[command(flatten)]
    selected: SelectedPartitions,
}

pub(crate) async fn run(
    args: StateClearTerminalArgs,
    context: &Context,
) -> Result<Exit, CommandError> {
    let action = PartitionAction::ClearTerminal;
    PartitionChangeRequest::by_filter(action, "state clear-terminal", args.selected)?
        .run(context)
        .await
}
