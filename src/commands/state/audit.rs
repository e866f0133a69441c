//! `redrive state audit`: what was done to partitions, by whom and why (PAR-9).

use clap::Args;
use redrive::{PartitionFilter, PartitionKey, Unit};
use redrive_store::{JournalFilter, JournalRecord, MAX_PAGE};
use serde::Serialize;
use serde_json::Value;

use super::which::Which;
use crate::{
    context::{Context, Missing},
    desk::Desk,
    exit::{Exit, Failure},
    output::{Column, Row},
};

/// How many rows of the journal are read at once.
const PAGE: u32 = 1_000;

/// The arguments of `state audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Every change that an operator or the daemon made is there, with the command, its filter and its flags, and
what ended besides: give-ups, lost leases, attempts that were handed back. Entries come in the order in
which they were written. When a page is full, the next one begins after its last id.

Examples:
  redrive state audit partition:ads/1234567890/campaign_daily/2026-01-31
  redrive state audit --source ads --action partition.retry
  redrive state audit --limit 10000 -o jsonl")]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,

    /// With this action alone, such as partition.retry
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,

    /// At most so many, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,

    /// Those with greater ids alone
    #[arg(long, value_name = "ID", default_value_t = 0, allow_hyphen_values = true,
          value_parser = clap::value_parser!(i64).range(0..))]
    after: i64,
}

/// An entry of the journal.
#[derive(Debug, Serialize)]
struct AuditRow {
    id: i64,
    at: String,
    actor: String,
    action: String,
    unit: Option<String>,
    filter: Option<Value>,
    details: Value,
}

impl From<JournalRecord> for AuditRow {
    fn from(JournalRecord { id, entry }: JournalRecord) -> Self {
        let json = |text: String| serde_json::from_str(&text).unwrap_or_else(|_| text.into());
        Self {
            id,
            at: entry.at.to_string(),
            actor: entry.actor,
            action: entry.action,
            unit: entry.unit,
            filter: entry.filter.map(json),
            details: json(entry.details),
        }
    }
}

impl Row for AuditRow {
    const COLUMNS: &'static [Column] = &[
        Column::number("id"),
        Column::text("at"),
        Column::text("actor"),
        Column::text("action"),
        Column::text("unit"),
        Column::text("details"),
    ];

    fn cells(&self) -> Vec<String> {
        let text = |name| self.details.get(name).and_then(Value::as_str);
        let flags = self.details.get("flags").and_then(Value::as_array);
        let flags = flags.into_iter().flatten().filter_map(Value::as_str);
        let command: Vec<&str> = text("command").into_iter().chain(flags).collect();
        let reason = text("reason").map(|reason| format!("({reason})"));
        let told: Vec<String> = [command.join(" ")].into_iter().chain(reason).collect();
        let told = told.join(" ");
        let details = if command.is_empty() { self.details.to_string() } else { told };
        vec![
            self.id.to_string(),
            self.at.clone(),
            self.actor.clone(),
            self.action.clone(),
            self.unit.clone().unwrap_or_default(),
            details,
        ]
    }
}

/// Runs `state audit`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let filter = arguments.which.filter()?;
    let desk = Desk::open(context, Missing::Refuse).await?;
    let unit = arguments.which.only_key().map(|key| Unit::Partition(key).to_string());
    let of_one = JournalFilter { unit, action: arguments.action };
    let limit = arguments.limit as usize;
    let (mut rows, mut after) = (Vec::new(), arguments.after);
    while rows.len() < limit {
        let page = desk.control.store().journal_page(&of_one, after, PAGE).await;
        let page = page.map_err(|error| desk.failure(error))?;
        let Some(last) = page.last() else { break };
        after = last.id;
        let is_last = page.len() < PAGE as usize;
        let matching = page.into_iter().filter(|row| is_about(row, &filter));
        rows.extend(matching.take(limit - rows.len()).map(AuditRow::from));
        if is_last {
            break;
        }
    }
    let last = rows.last().map(|row| row.id);
    let is_full = rows.len() >= limit;
    context.output.list(rows)?;
    if let Some(last) = last.filter(|_| is_full) {
        context.output.remark(&format!("there may be more: --after {last}"))?;
    }
    Ok(Exit::Ok)
}

/// Whether an entry is about a partition that matches.
fn is_about(row: &JournalRecord, filter: &PartitionFilter) -> bool {
    let unit = row.entry.unit.as_deref().and_then(|unit| unit.strip_prefix("partition:"));
    let Some(Ok(key)) = unit.map(str::parse::<PartitionKey>) else { return false };
    let same = |given: &Option<String>, part: &str| given.as_deref().is_none_or(|it| it == part);
    let day = key.logical_date();
    same(&filter.source, key.source())
        && same(&filter.customer_id, key.customer_id())
        && same(&filter.query_name, key.query_name())
        && filter.since.is_none_or(|since| since <= day)
        && filter.until.is_none_or(|until| day <= until)
}
