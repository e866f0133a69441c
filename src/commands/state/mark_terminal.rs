//! `redrive state mark-terminal`: stops the retries of failed partitions (PAR-9).

use clap::Args;
use redrive::PartitionAction;

use super::change::{PartitionChangeRequest, SelectedPartitions};
use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Adds [terminal] to the error_message of the failed partitions that match. Neither the daemon nor `state retry`
retries them until the mark is cleared, and consumers treat them as unavailable. Asks for confirmation before
more than 20.
Exit codes: 0 all done, or marked already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state mark-terminal --source ads --customer-id 1234567890 --reason 'the account is closed'
  redrive state mark-terminal partition:ads/1234567890/campaign_daily/2026-01-31 --dry-run")]
pub(crate) struct StateMarkTerminalArgs {
    #[command(flatten)]
    selected: SelectedPartitions,
}

pub(crate) async fn run(
    args: StateMarkTerminalArgs,
    context: &Context,
) -> Result<Exit, CommandError> {
    let action = PartitionAction::MarkTerminal;
    PartitionChangeRequest::by_filter(action, "state mark-terminal", args.selected)?
        .run(context)
        .await
}
