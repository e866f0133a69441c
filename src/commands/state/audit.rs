//! `redrive state audit`: prints the journal of partitions (PAR-9).

use clap::Args;
use redrive::Unit;
use redrive_ops::views::JournalView;
use redrive_store::{JournalFilter, MAX_PAGE};
use serde::Serialize;

use super::partition_selector::PartitionSelector;
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
The journal contains every change by an operator or the daemon, with the command, its filter and its flags, and
also give-ups, lost leases and released attempts. Entries are sorted by id, oldest first. To get the next page,
pass the last id to --after.

Examples:
  redrive state audit partition:ads/1234567890/campaign_daily/2026-01-31
  redrive state audit --source ads --action partition.retry
  redrive state audit --limit 10000 -o jsonl")]
pub(crate) struct StateAuditArgs {
    #[command(flatten)]
    partitions: PartitionSelector,

    /// Only this action, such as partition.retry
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,

    /// The most rows to print, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,

    /// Start after this id
    #[arg(long, value_name = "ID", default_value_t = 0, allow_hyphen_values = true,
          value_parser = clap::value_parser!(i64).range(0..))]
    after: i64,
}

/// A journal entry with its unit.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct AuditRow(JournalView);

impl TableRow for AuditRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("id"),
        TableColumn::text("at"),
        TableColumn::text("actor"),
        TableColumn::text("action"),
        TableColumn::text("unit"),
        TableColumn::text("details"),
    ];

    fn cells(&self) -> Vec<String> {
        let entry = &self.0;
        vec![
            entry.id.to_string(),
            entry.at.clone(),
            entry.actor.clone(),
            entry.action.clone(),
            entry.unit.clone().unwrap_or_default(),
            entry.in_words(),
        ]
    }
}

pub(crate) async fn run(args: StateAuditArgs, context: &Context) -> Result<Exit, CommandError> {
    let filter = args.partitions.filter()?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let unit = args.partitions.only_key().map(|key| Unit::Partition(key).to_string());
    let journal_filter = JournalFilter { unit, action: args.action };
    let rows = ops.partition_journal(&journal_filter, &filter, args.after, args.limit).await;
    let rows = rows.map_err(|error| ops.store_error(error))?;
    let last = rows.last().map(|row| row.id);
    let is_full = rows.len() >= args.limit as usize;
    context.output.list(rows.into_iter().map(JournalView::from).map(AuditRow))?;
    if let Some(last) = last.filter(|_| is_full) {
        context.output.footer(&format!("there may be more; continue with --after {last}"))?;
    }
    Ok(Exit::Ok)
}
