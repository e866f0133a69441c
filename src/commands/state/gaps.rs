//! `redrive state gaps`: the days that should be good by now and are not (PAR-9).

use clap::Args;
use redrive::{
    DateRange, Gap, LogicalDate,
    config::{Config, Source},
    declared_calendar, gaps,
    store::PartitionSeries,
};
use redrive_engine::{Clock, SystemClock};
use serde::Serialize;

use super::which::parse_part;
use crate::{
    context::{Context, Missing},
    desk::Desk,
    exit::{Exit, Failure},
    output::{Column, Listing, Row},
};

/// The arguments of `state gaps`.
#[derive(Debug, Args)]
#[command(after_help = "\
A day of a source is expected from its `start` on, once its `lag-days` are over and it is `at` o'clock, in
UTC. Expected days without an entry are missing; those that are pending or failed are late. A source
without a schedule expects the days from --since to --until.

Examples:
  redrive state gaps
  redrive state gaps --source ads --customer-id 1234567890
  redrive state gaps --source ads --since 2025-01-01 --until 2025-12-31 -o jsonl")]
pub(crate) struct Arguments {
    /// Of this source alone
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = parse_part)]
    source: Option<String>,

    /// Of this customer alone
    #[arg(long, value_name = "ID", allow_hyphen_values = true, value_parser = parse_part)]
    customer_id: Option<String>,

    /// Of this query alone
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = parse_part)]
    query_name: Option<String>,

    /// Not before this day
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    since: Option<LogicalDate>,

    /// Not after this day, which is included
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    until: Option<LogicalDate>,
}

/// Days one after another that are not good.
#[derive(Debug, Serialize)]
struct GapRow {
    source: String,
    customer_id: String,
    query_name: String,
    since: String,
    until: String,
    days: u64,
    gap: &'static str,
    status: Option<&'static str>,
}

impl GapRow {
    fn new(series: &PartitionSeries, gap: Gap) -> Self {
        Self {
            source: series.source.clone(),
            customer_id: series.customer_id.clone(),
            query_name: series.query_name.clone(),
            since: gap.days.since().to_string(),
            until: gap.days.until().to_string(),
            days: gap.days.days(),
            gap: if gap.status.is_some() { "late" } else { "missing" },
            status: gap.status.map(|status| status.name()),
        }
    }
}

impl Row for GapRow {
    const COLUMNS: &'static [Column] = &[
        Column::key("source"),
        Column::key("customer_id"),
        Column::key("query_name"),
        Column::text("since"),
        Column::text("until"),
        Column::number("days"),
        Column::text("gap"),
        Column::text("status"),
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

/// Runs `state gaps`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    if let (Some(since), Some(until)) = (arguments.since, arguments.until) {
        super::which::days(since, until)?;
    }
    let desk = Desk::open(context, Missing::Refuse).await?;
    let Some(config) = &desk.config else {
        return Err(Failure::new(Exit::Error, "which days are expected is in the configuration")
            .help("`redrive init` writes one, `--config FILE` names one"));
    };
    let mut listing = Listing::new(context.output);
    let (mut missing, mut late) = (0, 0);
    for source in selected(config, arguments.source.as_deref())? {
        let Some(expected) = expected(source, &arguments)? else { continue };
        for series in series(source, &arguments) {
            let found = gaps(&**desk.control.store(), &series, expected).await;
            let found = found.map_err(|error| desk.failure(error))?;
            for gap in &found {
                let count = if gap.status.is_some() { &mut late } else { &mut missing };
                *count += gap.days.days();
            }
            listing.add(found.into_iter().map(|gap| GapRow::new(&series, gap)))?;
        }
    }
    let hidden = listing.end()?;
    let hidden = if hidden > 0 { format!("; {hidden} rows are not shown") } else { String::new() };
    context.output.remark(&format!("{missing} days missing, {late} late{hidden}"))?;
    Ok(Exit::Ok)
}

fn selected<'a>(config: &'a Config, asked: Option<&str>) -> Result<Vec<&'a Source>, Failure> {
    match asked {
        None => Ok(config.sources.iter().collect()),
        Some(name) => config.source(name).map(|source| vec![source]).ok_or_else(|| {
            Failure::usage(format!("--source: there is no source {name:?}"))
                .help(config.source_suggestion(name))
        }),
    }
}

/// The days that should be good by now, as far as they are asked for.
fn expected(source: &Source, arguments: &Arguments) -> Result<Option<DateRange>, Failure> {
    let due = match &source.schedule {
        Some(schedule) => {
            let calendar = declared_calendar(schedule).map_err(|error| {
                let message = format!("the schedule of source {:?} cannot be used", source.name);
                Failure::new(Exit::Error, message).because(error)
            })?;
            calendar.due(SystemClock.now())
        }
        None => arguments
            .since
            .zip(arguments.until)
            .and_then(|(since, until)| DateRange::new(since, until).ok()),
    };
    let narrowed = due.and_then(|due| {
        let since = arguments.since.map_or(due.since(), |since| since.max(due.since()));
        let until = arguments.until.map_or(due.until(), |until| until.min(due.until()));
        DateRange::new(since, until).ok()
    });
    Ok(narrowed)
}

fn series(source: &Source, arguments: &Arguments) -> Vec<PartitionSeries> {
    let chosen = |asked: &Option<String>, declared: &[String]| -> Vec<String> {
        asked.as_ref().map_or_else(|| declared.to_vec(), |asked| vec![asked.clone()])
    };
    let queries = chosen(&arguments.query_name, &source.queries);
    let of = |customer: &String| -> Vec<PartitionSeries> {
        let one = |query: &String| PartitionSeries {
            source: source.name.clone(),
            customer_id: customer.clone(),
            query_name: query.clone(),
        };
        queries.iter().map(one).collect()
    };
    chosen(&arguments.customer_id, &source.customers).iter().flat_map(of).collect()
}
