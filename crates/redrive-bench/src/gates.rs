//! Gates: what open ones cost a drain, and how well several processes keep to the limit of a service behind one.

use clap::Args;
use redrive::StoreUrl;
use serde::Serialize;

use crate::{
    bench_store::BenchStore,
    error::BenchError,
    gate_costs, gate_workers,
    output::{ReportColumn, ReportRow},
    sizes::scale,
    usage::median,
};

#[derive(Debug, Args)]
pub(crate) struct GatesBenchArgs {
    /// Amount of work, from 0.001 to 100; 1 is 50 000 runs in each drain and 1 000 requests to each service
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    pub(crate) scale: f64,

    /// Rounds of drains, in each of which all kinds take turns; 0 for none
    #[arg(long, default_value = "7", value_name = "N", value_parser = clap::value_parser!(u16).range(0..=100))]
    pub(crate) rounds: u16,

    /// Rounds of requests, in each of which all kinds take turns; 0 for none
    #[arg(long, default_value = "3", value_name = "N", value_parser = clap::value_parser!(u16).range(0..=100))]
    pub(crate) request_rounds: u16,

    /// Worker processes that send requests
    #[arg(long, default_value = "4", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,

    /// Runs of a drain handled at once
    #[arg(long, default_value = "256", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) concurrency: u16,

    /// Connections to PostgreSQL, of the drain and of each worker process; SQLite has one writer
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) connections: u16,
}

pub(crate) async fn run(
    args: &GatesBenchArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Spread>, BenchError> {
    let bench_store = BenchStore::create(store_url, args.connections).await?;
    let measured = bench_store.measure(async |bench_store| {
        let mut rows = Vec::new();
        if args.rounds > 0 {
            rows.extend(gate_costs::measure(args, bench_store).await?);
        }
        if args.request_rounds > 0 {
            rows.extend(gate_workers::measure(args, bench_store).await?);
        }
        Ok(rows)
    });
    measured.await
}

/// A figure of several rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Spread {
    measure: String,
    median: f64,
    lowest: f64,
    highest: f64,
    unit: &'static str,
}

impl Spread {
    pub(crate) fn new(measure: String, rounds: &[f64], unit: &'static str) -> Self {
        let thousandths = |number: f64| (number * 1_000.0).round() / 1_000.0;
        Self {
            measure,
            median: thousandths(median(rounds.to_vec())),
            lowest: thousandths(rounds.iter().copied().fold(f64::INFINITY, f64::min)),
            highest: thousandths(rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            unit,
        }
    }
}

impl ReportRow for Spread {
    const COLUMNS: &'static [ReportColumn] = &[
        ReportColumn::text("measure"),
        ReportColumn::number("median"),
        ReportColumn::number("lowest"),
        ReportColumn::number("highest"),
        ReportColumn::text("unit"),
    ];

    fn cells(&self) -> Vec<String> {
        let numbers = [self.median, self.lowest, self.highest].map(|number| number.to_string());
        let [median, lowest, highest] = numbers;
        vec![self.measure.clone(), median, lowest, highest, self.unit.to_owned()]
    }
}
