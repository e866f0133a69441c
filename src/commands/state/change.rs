//! `redrive state inspect | retry | reprocess`: commands with flags that only partitions have (PAR-7, PAR-8, PAR-9).

use clap::Args;
use redrive::{Lane, PartitionAction, PartitionKey};
use redrive_ops::{ActionOptions, Resource, views::PartitionView};
use redrive_store::StateFilter;

use crate::{
    context::Context,
    exit::{CommandError, Exit},
    resource::{ChangeArgs, ListArgs, ShowArgs, act, list, show},
};

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    partitions: ChangeArgs<PartitionView>,

    /// Include partitions whose data was judged and is gone from the raw sink
    #[arg(long)]
    force: bool,

    /// Include terminal partitions: clear the mark of an operator, or exceed the limit of the policy once
    #[arg(long)]
    clear_terminal: bool,

    /// The lane of the attempts
    #[arg(long, value_enum, value_name = "LANE", default_value_t = LaneName::Fresh)]
    lane: LaneName,
}

#[derive(Debug, Args)]
pub(crate) struct ReprocessArgs {
    #[command(flatten)]
    partitions: ChangeArgs<PartitionView>,

    /// Include partitions whose data is gone from the raw sink
    #[arg(long)]
    force: bool,

    /// The lane of the attempts
    #[arg(long, value_enum, value_name = "LANE", default_value_t = LaneName::Backfill)]
    lane: LaneName,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// One partition, as partition:SOURCE/CUSTOMER/QUERY/DATE, instead of filters
    #[arg(value_name = "PARTITION", value_parser = PartitionView::parse_id)]
    partition: Option<PartitionKey>,

    /// Only failed partitions that are terminal: the same as --state terminal
    #[arg(long, conflicts_with = "state")]
    terminal: bool,

    #[command(flatten)]
    list: ListArgs<PartitionView>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LaneName {
    /// Compete with fresh data
    Fresh,
    /// Compete with backfill
    Backfill,
}

impl From<LaneName> for Lane {
    fn from(name: LaneName) -> Self {
        match name {
            LaneName::Fresh => Self::Fresh,
            LaneName::Backfill => Self::Backfill,
        }
    }
}

pub(crate) async fn retry(args: RetryArgs, context: &Context) -> Result<Exit, CommandError> {
    let RetryArgs { partitions, force, clear_terminal, lane } = args;
    let action = PartitionAction::Retry { clear_terminal, lane: lane.into() };
    let options = ActionOptions { clear_terminal, force, lane: Some(lane.into()), text: None };
    act("state retry", action, options, partitions, context).await
}

pub(crate) async fn reprocess(
    args: ReprocessArgs,
    context: &Context,
) -> Result<Exit, CommandError> {
    let ReprocessArgs { partitions, force, lane } = args;
    let action = PartitionAction::Reprocess { lane: lane.into() };
    let options = ActionOptions { force, lane: Some(lane.into()), ..ActionOptions::default() };
    act("state reprocess", action, options, partitions, context).await
}

pub(crate) async fn inspect(args: InspectArgs, context: &Context) -> Result<Exit, CommandError> {
    let InspectArgs { partition, terminal, list: mut args } = args;
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
