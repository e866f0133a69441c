//! `redrive state gaps`: prints expected days that are missing or not good yet (PAR-9).

use std::collections::HashMap;

use clap::Args;
use redrive::{LogicalDate, Unreadable};
use redrive_ops::{DeclaredSource, GapFilter, views::GapView};

use super::partition_selector::parse_part;
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{Listing, TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A scheduled source expects every day from `start`, once `lag-days` have passed, at the time `at` in UTC. Expected
days without a partition are missing, pending ones are late, failed ones are retried by the daemon, and gone ones are
terminal: they come only if an operator retries them. A source without a schedule expects the days from --since to
--until.

Examples:
  redrive state gaps
  redrive state gaps --source ads --customer-id 1234567890
  redrive state gaps --source ads --since 2025-01-01 --until 2025-12-31 -o jsonl")]
pub(crate) struct StateGapsArgs {
    /// Only this source
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = parse_part)]
    source: Option<String>,

    /// Only this customer
    #[arg(long, value_name = "ID", allow_hyphen_values = true, value_parser = parse_part)]
    customer_id: Option<String>,

    /// Only this query
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = parse_part)]
    query_name: Option<String>,

    /// The first day
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    since: Option<LogicalDate>,

    /// The last day, inclusive
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    until: Option<LogicalDate>,
}

impl TableRow for GapView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::key("source"),
        TableColumn::key("customer_id"),
        TableColumn::key("query_name"),
        TableColumn::text("since"),
        TableColumn::text("until"),
        TableColumn::number("days"),
        TableColumn::text("gap"),
        TableColumn::text("status"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.source.clone(),
            self.customer_id.clone(),
            self.query_name.clone(),
            self.since.clone(),
            self.until.clone(),
            self.days.to_string(),
            self.gap.to_owned(),
            self.status.unwrap_or("no entry").to_owned(),
        ]
    }
}

pub(crate) async fn run(args: StateGapsArgs, context: &Context) -> Result<Exit, CommandError> {
    if let (Some(since), Some(until)) = (args.since, args.until) {
        super::partition_selector::date_range(since, until)?;
    }
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let filter = GapFilter {
        customer_id: args.customer_id,
        query_name: args.query_name,
        since: args.since,
        until: args.until,
    };
    let mut listing = Listing::new(context.output);
    let mut days = HashMap::new();
    for source in selected_sources(&ops, args.source.as_deref())? {
        let found = ops.gaps(source, &filter).await.map_err(|error| ops.store_error(error))?;
        for (series, gaps) in found {
            for gap in &gaps {
                *days.entry(gap.why).or_insert(0) += gap.days.days();
            }
            listing.add(gaps.iter().map(|gap| GapView::new(&series, gap)))?;
        }
    }
    let hidden = listing.end()?;
    let hidden = if hidden > 0 {
        format!("; {hidden} rows are not shown, -o jsonl prints all")
    } else {
        String::new()
    };
    let [missing, late, failed, gone] =
        [Unreadable::Missing, Unreadable::Late, Unreadable::Failed, Unreadable::Gone]
            .map(|why| days.get(&why).copied().unwrap_or(0));
    context.output.footer(&format!(
        "{missing} days missing, {late} late, {failed} failed, {gone} gone{hidden}"
    ))?;
    Ok(Exit::Ok)
}

fn selected_sources<'a>(
    ops: &'a OpenStore,
    name: Option<&str>,
) -> Result<Vec<&'a DeclaredSource>, CommandError> {
    let (Some(declared), Some(config)) = (ops.declared(), &ops.config) else {
        return Err(CommandError::new(
            Exit::Error,
            "state gaps needs a configuration, which declares the expected days",
        )
        .help("`redrive init` writes one; --config FILE selects a file"));
    };
    match name {
        None => Ok(declared.sources.iter().collect()),
        Some(name) => declared.source(name).map(|source| vec![source]).ok_or_else(|| {
            CommandError::usage(format!("--source: there is no source {name:?}"))
                .help(config.source_suggestion(name))
        }),
    }
}
