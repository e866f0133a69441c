//! `redrive state resume`: resumes paused partitions (PAR-9).

use clap::Args;
use redrive::PartitionAction;

use super::change::{PartitionChangeRequest, SelectedPartitions};
use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Resumes the paused partitions that match. Asks for confirmation before more than 20.
Exit codes: 0 all done, or not paused; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state resume --source ads
  redrive state resume --all --yes")]
pub(crate) struct StateResumeArgs {
    #[command(flatten)]
    selected: SelectedPartitions,
}

pub(crate) async fn run(args: StateResumeArgs, context: &Context) -> Result<Exit, CommandError> {
    let action = PartitionAction::Resume;
    PartitionChangeRequest::by_filter(action, "state resume", args.selected)?.run(context).await
}
