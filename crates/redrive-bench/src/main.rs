//! `redrive bench`: how fast, beside what a bare loop does on the same machine in the same run.
//!
//! Absolute figures differ from machine to machine and from minute to minute. So every figure stands
//! beside that of a bare loop that does the same work without Redrive, and the ratio is what counts.

mod contender;
mod decide;
mod http;
mod marks;
mod partition_loop;
mod partitions;
mod pipeline;
mod place;
mod plain_files;
mod postgres_loop;
mod redrive_store;
mod requests;
mod retry;
mod runs;
mod server;
mod server_fill;
mod spent;
mod sqlite_loop;
mod store;
mod stream;
mod uploads;
mod workload;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{
    context::Context,
    exit::{Exit, Failure},
    output::{Column, Row},
};

/// The arguments of `bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive bench decide
  redrive bench retry
  redrive bench store
  redrive bench store --store postgres://redrive@localhost/bench
  redrive bench uploads
  redrive bench server")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Decisions per second on one core, beside the bare formula
    #[command(after_help = "\
Examples:
  redrive bench decide
  redrive bench decide --seconds 10 -o json")]
    Decide(decide::Arguments),
    /// What retrying adds to a call, beside a loop written by hand
    #[command(after_help = "\
Examples:
  redrive bench retry
  redrive bench retry --seconds 10 -o json")]
    Retry(retry::Arguments),
    /// Rates of insert, claim and finish, beside a bare loop of prepared statements
    #[command(after_help = "\
SQLite is measured in a new file, PostgreSQL in a database that has nothing of Redrive's; what was
made for the measurement is removed afterwards.

Examples:
  redrive bench store
  redrive bench store --scale 0.1
  redrive bench store --store postgres://redrive@localhost/bench --connections 4")]
    Store(store::Arguments),
    /// The whole engine: runs drained, retries, pick-up and memory, beside a bare loop
    #[command(after_help = "\
Examples:
  redrive bench runs
  redrive bench runs --handler exec
  redrive bench runs --handler stream
  redrive bench runs --handler http
  redrive bench runs --store postgres://redrive@localhost/bench")]
    Runs(runs::Arguments),
    /// Partitions backfilled, found, retried, extracted and judged, beside bare loops
    #[command(after_help = "\
Examples:
  redrive bench partitions
  redrive bench partitions --scale 0.1
  redrive bench partitions --store postgres://redrive@localhost/bench")]
    Partitions(partitions::Arguments),
    /// Samples through the stages of a pipeline, beside a bare loop and a bare client
    #[command(after_help = "\
Examples:
  redrive bench pipeline
  redrive bench pipeline --scale 10             a million samples
  redrive bench pipeline --store postgres://redrive@localhost/bench")]
    Pipeline(pipeline::Arguments),
    /// Uploads: what retrying adds, counting attempts, and items sent beside a bare client
    #[command(after_help = "\
Examples:
  redrive bench uploads
  redrive bench uploads --concurrency 32
  redrive bench uploads --store postgres://redrive@localhost/bench")]
    Uploads(uploads::Arguments),
    /// The server: the overview of a large store, runs submitted over HTTP, and open pages
    #[command(after_help = "\
A server and its clients share this process. The overview is asked for every 20 ms while a worker goes on.

Examples:
  redrive bench server
  redrive bench server --scale 0.1              100 000 runs and 10 000 partitions
  redrive bench server --pages 300 --seconds 60
  redrive bench server --store postgres://redrive@localhost/bench")]
    Server(server::Arguments),
    /// A workload by Redrive alone in a new store, to be put beside another system's
    #[command(after_help = "\
scripts/peers runs this and the same workload of other systems in turn; docs/benchmarks.md has what came of it.

Examples:
  redrive bench workload runs
  redrive bench workload failing-runs --store postgres://redrive@localhost/bench
  redrive bench workload partitions --count 10000 -o json")]
    Workload(workload::Arguments),
    /// The program that `bench runs --handler stream` calls
    #[command(hide = true)]
    Echo,
}

/// A figure beside that of the bare loop.
#[derive(Debug, Serialize)]
struct Figure {
    operation: &'static str,
    batch: usize,
    per_second: f64,
    bare_per_second: f64,
    ratio: f64,
}

impl Figure {
    fn new(operation: &'static str, batch: usize, per_second: f64, bare_per_second: f64) -> Self {
        let ratio = (per_second / bare_per_second * 1_000.0).round() / 1_000.0;
        Self {
            operation,
            batch,
            per_second: per_second.round(),
            bare_per_second: bare_per_second.round(),
            ratio,
        }
    }
}

impl Row for Figure {
    const COLUMNS: &'static [Column] = &[
        Column::text("operation"),
        Column::number("batch"),
        Column::number("per second"),
        Column::number("bare loop"),
        Column::number("ratio"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.operation.to_owned(),
            self.batch.to_string(),
            grouped(self.per_second),
            grouped(self.bare_per_second),
            format!("{:.2}", self.ratio),
        ]
    }
}

/// A whole number with its thousands apart.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// Reads how long to measure.
fn seconds(text: &str) -> Result<f64, String> {
    let allowed = || "write a number of seconds from 0.01 to 600".to_owned();
    let seconds: f64 = text.parse().map_err(|_| allowed())?;
    if (0.01..=600.0).contains(&seconds) { Ok(seconds) } else { Err(allowed()) }
}

/// Reads how much to do.
fn scale(text: &str) -> Result<f64, String> {
    let allowed = || "write a number from 0.001 to 100".to_owned();
    let scale: f64 = text.parse().map_err(|_| allowed())?;
    if (0.001..=100.0).contains(&scale) { Ok(scale) } else { Err(allowed()) }
}

/// Runs `bench`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Decide(arguments) => context.output.list(decide::run(&arguments)?)?,
        Action::Retry(arguments) => context.output.list(retry::run(&arguments).await?)?,
        Action::Store(arguments) => context.output.list(store::run(&arguments, context).await?)?,
        Action::Runs(arguments) => context.output.list(runs::run(&arguments, context).await?)?,
        Action::Partitions(arguments) => {
            context.output.list(partitions::run(&arguments, context).await?)?;
        }
        Action::Pipeline(arguments) => {
            context.output.list(pipeline::run(&arguments, context).await?)?;
        }
        Action::Uploads(arguments) => {
            context.output.list(uploads::run(&arguments, context).await?)?;
        }
        Action::Server(arguments) => {
            context.output.list(server::run(&arguments, context).await?)?;
        }
        Action::Workload(arguments) => {
            context.output.list(workload::run(&arguments, context).await?)?;
        }
        Action::Echo => stream::answer_calls()?,
    }
    Ok(Exit::Ok)
}
