//! `redrive state inspect`: lists partitions, or shows one (PAR-8).

use clap::Args;
use redrive::PartitionKey;
use redrive_ops::{Resource, views::PartitionView};
use redrive_store::StateFilter;

use crate::{
    context::Context,
    exit::{CommandError, Exit},
    resource::{ListArgs, ShowArgs, list, show},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Partitions are sorted by key. To get the next page, pass the last key to --after. A PARTITION that does not exist
is shown with the status `no entry`. JSON contains every column of `partition_state`, and also whether and why the
partition is terminal or paused, and when and why it is retried.

Examples:
  redrive state inspect partition:ads/1234567890/campaign_daily/2026-01-31
  redrive state inspect --source ads --state failed
  redrive state inspect --state terminal
  redrive state inspect --source ads --limit 10000 -o jsonl")]
pub(crate) struct StateInspectArgs {
    /// One partition, as partition:SOURCE/CUSTOMER/QUERY/DATE, instead of filters
    #[arg(value_name = "PARTITION", value_parser = PartitionView::parse_id)]
    partition: Option<PartitionKey>,

    /// Only failed partitions that are terminal: the same as --state terminal
    #[arg(long, conflicts_with = "state")]
    terminal: bool,

    #[command(flatten)]
    list: ListArgs<PartitionView>,
}

pub(crate) async fn run(args: StateInspectArgs, context: &Context) -> Result<Exit, CommandError> {
    let StateInspectArgs { partition, terminal, list: mut args } = args;
    if terminal {
        args.terms.selection.state = Some(StateFilter { status: "failed", waiting: Some(false) });
    }
    let selection = &args.terms.selection;
    if partition.is_some() && (!selection.is_empty() || selection.state.is_some()) {
        return Err(CommandError::usage("PARTITION cannot be combined with filters"));
    }
    match partition.or_else(|| selection.key()) {
        Some(key) => show(ShowArgs::<PartitionView> { ids: vec![key] }, context).await,
        None => list(args, false, context).await,
    }
}
