//! `redrive state inspect`: prints partitions (PAR-1, PAR-7, PAR-9).

use clap::Args;
use redrive::{PartitionFilter, PartitionKey, PartitionStatus};
use redrive_ops::PartitionQuery;
use redrive_store::MAX_PAGE;

use super::{
    partition_selector::{PartitionSelector, parse_partition},
    row::PartitionListRow,
};
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Partitions are sorted by key. To get the next page, pass the last key to --after. A PARTITION that does not exist
is shown with the status `no entry`. JSON contains every column of `partition_state`, and also whether and why the
partition is terminal or paused, and when and why it is retried.

Examples:
  redrive state inspect partition:ads/1234567890/campaign_daily/2026-01-31
  redrive state inspect --source ads --status failed
  redrive state inspect --terminal
  redrive state inspect --source ads --limit 10000 -o jsonl")]
pub(crate) struct StateInspectArgs {
    #[command(flatten)]
    partitions: PartitionSelector,

    /// Only this status: pending, success, failed
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    status: Option<PartitionStatus>,

    /// Only failed partitions that are terminal: marked, or given up by their policy
    #[arg(long, conflicts_with = "status")]
    terminal: bool,

    /// The most rows to print, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,

    /// Start after this partition
    #[arg(long, value_name = "PARTITION", value_parser = parse_partition)]
    after: Option<PartitionKey>,
}

pub(crate) async fn run(args: StateInspectArgs, context: &Context) -> Result<Exit, CommandError> {
    let filter = args.partitions.filter()?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let only = args.partitions.only_key().filter(|_| !args.terminal);
    if let Some(key) = only.filter(|_| args.status.is_none()) {
        let shown = ops.inspect_partition(&key).await.map_err(|error| ops.store_error(error))?;
        context.output.records(&[shown])?;
        return Ok(Exit::Ok);
    }
    let query = PartitionQuery {
        filter: PartitionFilter { status: args.status, ..filter },
        terminal: args.terminal,
        after: args.after,
        limit: args.limit,
    };
    let page = ops.partitions_page(&query).await.map_err(|error| ops.store_error(error))?;
    let last = page.last().map(|partition| partition.key.clone());
    let is_full = page.len() >= args.limit as usize;
    let shown = page.into_iter().map(|found| ops.show_partition(found));
    context.output.list(shown.map(PartitionListRow))?;
    if let Some(last) = last.filter(|_| is_full) {
        context.output.footer(&format!("there may be more; continue with --after {last}"))?;
    }
    Ok(Exit::Ok)
}

fn parse_status(text: &str) -> Result<PartitionStatus, String> {
    PartitionStatus::from_name(text).ok_or_else(|| {
        let names = PartitionStatus::ALL.map(PartitionStatus::name);
        format!("the statuses are {}", names.join(", "))
    })
}
