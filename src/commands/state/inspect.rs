//! `redrive state inspect` (PAR-1, PAR-7, PAR-9).

use clap::Args;
use redrive::{PartitionFilter, PartitionKey, PartitionRecord, PartitionStatus, Prospect};
use redrive_engine::{Clock, Control, SystemClock};
use redrive_store::{MAX_PAGE, Result};

use super::{
    next::PartitionNext,
    row::{PartitionRow, PartitionSummary},
    which::{Which, parse_partition},
};
use crate::{
    context::{Context, Missing},
    desk::Desk,
    exit::{Exit, Failure},
};

/// The arguments of `state inspect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Partitions come by key. When a page is full, the next one begins after its last key. A partition that is
named in full and has no entry is said to have none. JSON has every column of `partition_state`, and
whether and why it is terminal or paused, when it is retried, and why.

Examples:
  redrive state inspect partition:ads/1234567890/campaign_daily/2026-01-31
  redrive state inspect --source ads --status failed
  redrive state inspect --terminal
  redrive state inspect --source ads --limit 10000 -o jsonl")]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,

    /// With this status alone: pending, success, failed
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    status: Option<PartitionStatus>,

    /// Those alone that are failed and terminal: marked, or ended by a limit of their policy
    #[arg(long, conflicts_with = "status")]
    terminal: bool,

    /// At most so many, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,

    /// Those alone that come after this one
    #[arg(long, value_name = "PARTITION", value_parser = parse_partition)]
    after: Option<PartitionKey>,
}

/// Runs `state inspect`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let filter = arguments.which.filter()?;
    let desk = Desk::open(context, Missing::Refuse).await?;
    let only = arguments.which.only_key().filter(|_| !arguments.terminal);
    if let Some(key) = only.filter(|_| arguments.status.is_none()) {
        let found = desk.control.store().partitions_by_key(std::slice::from_ref(&key)).await;
        let found = found.map_err(|error| desk.failure(error))?.pop().flatten();
        let control = &desk.control;
        let row = found.map_or_else(|| PartitionRow::absent(&key), |found| row(control, found));
        context.output.records(&[row])?;
        return Ok(Exit::Ok);
    }
    let terminal = arguments.terminal.then_some(PartitionStatus::Failed);
    let wanted = Wanted {
        filter: PartitionFilter { status: arguments.status.or(terminal), ..filter },
        terminal: arguments.terminal,
        after: arguments.after,
        limit: arguments.limit,
    };
    let page = wanted.page(&desk.control).await.map_err(|error| desk.failure(error))?;
    let last = page.last().map(|partition| partition.key.clone());
    let is_full = page.len() >= arguments.limit as usize;
    context
        .output
        .list(page.into_iter().map(|found| row(&desk.control, found)).map(PartitionSummary))?;
    if let Some(last) = last.filter(|_| is_full) {
        context.output.remark(&format!("there may be more: --after {last}"))?;
    }
    Ok(Exit::Ok)
}

/// The rows of the first page of everything, as they would be shown.
pub(crate) async fn first_page(control: &Control, limit: u32) -> Result<usize> {
    let filter = PartitionFilter::default();
    let page = Wanted { filter, terminal: false, after: None, limit }.page(control).await?;
    let rows: Vec<PartitionRow> = page.into_iter().map(|found| row(control, found)).collect();
    Ok(rows.len())
}

/// What is to be shown.
struct Wanted {
    filter: PartitionFilter,
    terminal: bool,
    after: Option<PartitionKey>,
    limit: u32,
}

impl Wanted {
    /// The partitions of a page. Whether one is terminal is not for the store to say, so pages are read
    /// until there are enough.
    async fn page(&self, control: &Control) -> Result<Vec<PartitionRecord>> {
        let store = control.store();
        if !self.terminal {
            return store.partitions_page(&self.filter, self.after.as_ref(), self.limit).await;
        }
        let (mut found, mut after) = (Vec::new(), self.after.clone());
        let (limit, now) = (self.limit as usize, SystemClock.now());
        let is_terminal = |partition: &PartitionRecord| {
            let prospect = control.rules().prospect(partition, now);
            matches!(prospect, Some(Prospect::Terminal { .. }))
        };
        while found.len() < limit {
            let page = store.partitions_page(&self.filter, after.as_ref(), self.limit).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            found.extend(page.into_iter().filter(is_terminal).take(limit - found.len()));
        }
        Ok(found)
    }
}

fn row(control: &Control, partition: PartitionRecord) -> PartitionRow {
    let (rules, lease_now) = (control.rules(), control.store().now());
    let next = PartitionNext::of(&partition, rules, SystemClock.now(), lease_now);
    PartitionRow::new(partition, next)
}

/// A status, by its name.
fn parse_status(text: &str) -> Result<PartitionStatus, String> {
    PartitionStatus::from_name(text).ok_or_else(|| {
        let names = PartitionStatus::ALL.map(PartitionStatus::name);
        format!("the statuses are {}", names.join(", "))
    })
}
