//! `redrive consume cat`: prints rows.

use std::collections::BTreeMap;

use clap::Args;
use redrive::{ConsumeError, Consumer, PartitionKey, ReadablePartition, Selection, Unreadable};
use redrive_ops::GapFilter;
use serde_json::json;

use crate::{
    commands::state::PartitionSelector,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::Output,
};

/// Partitions per page.
const PAGE: u32 = 1_000;

/// Partitions that are named because they cannot be read; further ones are only counted.
const MAX_NAMED: u64 = 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Prints rows unchanged, one JSON object per line, partition by partition in the order of keys. A PARTITION that cannot
be read is an error. Filters skip partitions that cannot be read, and standard error says which: missing (no entry),
late (pending), failed (retried later) or gone (terminal). With -o json each of these is a JSON line. After the last
row of a partition the command compares hash and count with the metadata, and exits with 1 if they differ.
Exit codes of a PARTITION: 0 printed; 5 gone; 6 missing or late; 7 failed.

Examples:
  redrive consume cat partition:ads/1234567890/campaign_daily/2026-01-31
  redrive consume cat --source ads --logical-date 2026-01-31 | jq .clicks
  redrive consume cat --source ads --with-keys | jq '[.customer_id, .logical_date, .row.clicks]'")]
pub(crate) struct ConsumeCatArgs {
    #[command(flatten)]
    partitions: PartitionSelector,

    /// Print all readable partitions; required if there is no filter
    #[arg(long)]
    all: bool,

    /// Print each row as an object with source, customer_id, query_name, logical_date and row
    #[arg(long)]
    with_keys: bool,
}

pub(crate) async fn run(args: ConsumeCatArgs, context: &Context) -> Result<Exit, CommandError> {
    let filter = args.partitions.filter()?;
    if filter.is_empty() && !args.all {
        return Err(CommandError::new(
            Exit::Refused,
            "no partitions are selected; nothing was printed",
        )
        .help("select partitions by filters such as --source NAME, or pass --all"));
    }
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let consumer = ops.consumer();
    let output = context.output;
    let failed = |error| command_error(error, &ops, output);
    if let Some(key) = args.partitions.only_key() {
        let found = consumer.find(&key).await.map_err(failed)?;
        print(&consumer, &found, args.with_keys, output).await.map_err(failed)??;
        return Ok(Exit::Ok);
    }
    expect_source(&filter, &ops).await?;
    let mut unread = UnreadPartitions::new(output);
    let mut after = None;
    loop {
        let page = consumer.scan(&filter, after.as_ref(), PAGE).await;
        let page = page.map_err(|error| ops.store_error(error))?;
        for (key, found) in &page {
            match found {
                Ok(found) => {
                    print(&consumer, found, args.with_keys, output).await.map_err(failed)??;
                }
                Err(why) => unread.add(&format!("partition:{key}"), *why, 1),
            }
        }
        match page.into_iter().next_back() {
            Some((last, _)) => after = Some(last),
            None => break,
        }
    }
    add_missing(&ops, &filter, &mut unread).await.map_err(|error| ops.store_error(error))?;
    unread.end();
    Ok(Exit::Ok)
}

/// Refuses a source that the configuration does not declare and that has no partitions.
async fn expect_source(filter: &Selection, ops: &OpenStore) -> Result<(), CommandError> {
    let (Some(source), Some(declared)) = (&filter.source, ops.declared()) else { return Ok(()) };
    let Err(unknown) = declared.expect_series(source, &[], &[]) else { return Ok(()) };
    let of_source = Selection { source: Some(source.clone()), ..Selection::default() };
    let found = ops.store().partitions_page(&of_source, None, 1.into()).await;
    if !found.map_err(|error| ops.store_error(error))?.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the configuration declares no source {source:?}, and the store has no partition of it; nothing was printed"
    );
    Err(CommandError::new(Exit::Refused, message).help(unknown.help))
}

/// Prints the rows of a partition. The outer error is about reading, the inner about printing.
async fn print(
    consumer: &Consumer,
    found: &ReadablePartition,
    with_keys: bool,
    output: Output,
) -> Result<Result<(), CommandError>, ConsumeError> {
    let mut rows = consumer.read_run(found).await?;
    let mut printer = RowPrinter { output, cut: Vec::new(), keys: None, line: Vec::new() };
    if with_keys {
        printer.keys = Some(keys(&found.key));
    }
    loop {
        let next = rows.next().await;
        let key = || found.key.clone();
        let next = next.map_err(|source| ConsumeError::Raw { key: key(), source })?;
        let printed = match &next {
            Some(bytes) => printer.print(bytes),
            None => printer.end(),
        };
        if printed.is_err() || next.is_none() {
            return Ok(printed);
        }
    }
}

/// The start of the object around a row.
fn keys(key: &PartitionKey) -> String {
    let keys = json!({
        "source": key.source(),
        "customer_id": key.customer_id(),
        "query_name": key.query_name(),
        "logical_date": key.logical_date().to_string(),
    });
    let mut keys = keys.to_string();
    keys.pop();
    keys + ",\"row\":"
}

struct RowPrinter {
    output: Output,
    cut: Vec<u8>,
    /// What each row is put in.
    keys: Option<String>,
    /// An incomplete row.
    line: Vec<u8>,
}

impl RowPrinter {
    fn print(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        if self.keys.is_none() {
            return self.output.data(bytes, &mut self.cut);
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.ends_with(b"\n") {
                self.print_line()?;
            }
        }
        Ok(())
    }

    /// Prints a last row without a line break.
    fn end(&mut self) -> Result<(), CommandError> {
        if self.line.is_empty() { Ok(()) } else { self.print_line() }
    }

    fn print_line(&mut self) -> Result<(), CommandError> {
        let line = std::mem::take(&mut self.line);
        let keys = self.keys.as_deref().unwrap_or_default().as_bytes();
        let whole = [keys, line.trim_ascii_end(), b"}\n"].concat();
        self.output.data(&whole, &mut self.cut)
    }
}

/// Reports on standard error which partitions were not printed.
struct UnreadPartitions {
    output: Output,
    counts: BTreeMap<&'static str, u64>,
}

impl UnreadPartitions {
    fn new(output: Output) -> Self {
        Self { output, counts: BTreeMap::new() }
    }

    fn add(&mut self, what: &str, why: Unreadable, partitions: u64) {
        let before: u64 = self.counts.values().sum();
        *self.counts.entry(why.name()).or_default() += partitions;
        if !self.output.is_table() {
            note_unreadable(what, why, self.output);
        } else if before < MAX_NAMED {
            self.output.note(&format!("not printed: {what}: {why}"));
        }
    }

    fn end(self) {
        let total: u64 = self.counts.values().sum();
        if total > 0 && self.output.is_table() {
            let counts = self.counts.iter().map(|(name, count)| format!("{count} {name}"));
            let counts = counts.collect::<Vec<_>>().join(", ");
            self.output.note(&format!(
                "{total} partitions were not printed: {counts}; `redrive state gaps` lists the days of a source"
            ));
        }
    }
}

/// One JSON line on standard error, for programs.
fn note_unreadable(what: &str, why: Unreadable, output: Output) {
    let line = json!({ "unit": what, "state": why.name(), "why": why.to_string() });
    output.note(&line.to_string());
}

/// The days that the schedules of the declared sources expect and that have no entry.
async fn add_missing(
    ops: &OpenStore,
    filter: &Selection,
    unread: &mut UnreadPartitions,
) -> redrive_store::Result<()> {
    let gaps = GapFilter {
        customer_id: filter.customer_id.clone(),
        query_name: filter.query_name.clone(),
        since: filter.since,
        until: filter.until,
    };
    let declared = ops.declared().into_iter().flat_map(|declared| &declared.sources);
    let selected =
        declared.filter(|source| filter.source.as_ref().is_none_or(|name| *name == source.name));
    for source in selected {
        for (series, found) in ops.gaps(source, &gaps).await? {
            for gap in found.iter().filter(|gap| gap.why == Unreadable::Missing) {
                let (source, customer, query) =
                    (&series.source, &series.customer_id, &series.query_name);
                let (since, until) = (gap.days.since(), gap.days.until());
                let what = format!("partition:{source}/{customer}/{query}/{since}");
                let what = if since == until { what } else { format!("{what} to {until}") };
                unread.add(&what, gap.why, gap.days.days());
            }
        }
    }
    Ok(())
}

fn command_error(error: ConsumeError, ops: &OpenStore, output: Output) -> CommandError {
    match error {
        ConsumeError::Store(error) => ops.store_error(error),
        ConsumeError::NotReadable { key, why } => {
            if !output.is_table() {
                note_unreadable(&format!("partition:{key}"), why, output);
            }
            let (exit, help) = match why {
                Unreadable::Missing => (Exit::Late, "`redrive state backfill` requests partitions"),
                Unreadable::Late => (Exit::Late, "`redrive why` explains what comes next"),
                Unreadable::Failed => (Exit::Failed, "`redrive why` says when it is retried"),
                Unreadable::Gone => {
                    (Exit::Gone, "`redrive state retry --clear-terminal` retries it")
                }
                _ => (Exit::Error, "`redrive why` explains the status"),
            };
            CommandError::new(exit, format!("partition:{key} cannot be read: {why}")).help(help)
        }
        ConsumeError::Raw { key, source } => {
            CommandError::new(Exit::Error, format!("partition:{key} cannot be read"))
                .caused_by(source)
        }
        other => CommandError::new(Exit::Error, other),
    }
}
