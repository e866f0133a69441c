//! What a retry policy adds to a call, compared with a loop written by hand.

use std::{
    cell::Cell,
    future::ready,
    hint::black_box,
    time::{Duration, Instant},
};

use clap::Args;
use redrive::{Failure, Preset, retry};
use serde::Serialize;

use crate::{
    output::{ReportColumn, ReportRow},
    sizes::seconds,
    usage::median,
};

#[derive(Debug, Args)]
pub(crate) struct RetryBenchArgs {
    /// How long to measure, from 0.01 to 600
    #[arg(long, default_value = "2", value_name = "S", value_parser = seconds)]
    seconds: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct CallCost {
    operation: &'static str,
    ns_per_call: f64,
    bare_ns_per_call: f64,
    ratio: f64,
}

impl CallCost {
    fn new(operation: &'static str, ns: f64, bare_ns: f64) -> Self {
        let rounded = |number: f64| (number * 10.0).round() / 10.0;
        let ratio = (ns / bare_ns * 1_000.0).round() / 1_000.0;
        Self { operation, ns_per_call: rounded(ns), bare_ns_per_call: rounded(bare_ns), ratio }
    }
}

impl ReportRow for CallCost {
    const COLUMNS: &'static [ReportColumn] = &[
        ReportColumn::text("operation"),
        ReportColumn::number("ns per call"),
        ReportColumn::number("bare loop"),
        ReportColumn::number("ratio"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.operation.to_owned(),
            format!("{:.1}", self.ns_per_call),
            format!("{:.1}", self.bare_ns_per_call),
            format!("{:.2}", self.ratio),
        ]
    }
}

/// Calls between two reads of the clock.
const CHUNK: u32 = 10_000;

/// Both loops take this many turns, so that a slow moment affects both.
const ROUNDS: u32 = 20;

/// Measures on this thread, with delays that take no time.
pub(crate) async fn run(args: &RetryBenchArgs) -> Vec<CallCost> {
    let round = Duration::from_secs_f64(args.seconds / f64::from(4 * ROUNDS));
    let mut costs = Vec::new();
    for (operation, failures) in [("success at once", 0), ("success after one failure", 1)] {
        let (mut ns, mut bare_ns) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ns.push(ns_per_call(round, async |times| retried(times, failures).await).await);
            bare_ns.push(ns_per_call(round, async |times| by_hand(times, failures).await).await);
        }
        costs.push(CallCost::new(operation, median(ns), median(bare_ns)));
    }
    costs
}

async fn ns_per_call(time: Duration, chunk: impl AsyncFn(u32)) -> f64 {
    let start = Instant::now();
    let mut done = 0.0;
    while start.elapsed() < time {
        chunk(CHUNK).await;
        done += f64::from(CHUNK);
    }
    start.elapsed().as_secs_f64() * 1e9 / done
}

/// Fails until `failures` is 0, then returns the number.
async fn operation(failures: &Cell<u32>, number: u32) -> Result<u32, Failure> {
    let left = black_box(failures.get());
    if left == 0 {
        return Ok(black_box(number));
    }
    failures.set(left - 1);
    Err(Failure::http(503, None, "busy"))
}

async fn retried(times: u32, failures: u32) {
    let policy = Preset::Stage.policy();
    for number in 0..times {
        let left = Cell::new(failures);
        let call = retry(black_box(&policy), || operation(&left, number));
        // Only a call that fails needs a delay that takes no time.
        let answer = if failures == 0 { call.await } else { call.sleep(|_| ready(())).await };
        let _ = black_box(answer);
    }
}

/// A retry loop without Redrive: count attempts, double the delay up to the cap.
async fn by_hand(times: u32, failures: u32) {
    let spec = Preset::Stage.spec();
    let (max, base, cap) = (spec.max_attempts.unwrap_or(u32::MAX), spec.base, spec.cap);
    for number in 0..times {
        let left = Cell::new(failures);
        let mut attempt = 0;
        let answer = loop {
            attempt += 1;
            match operation(&left, number).await {
                Err(_) if attempt < black_box(max) => {
                    let delay = base.saturating_mul(2_u32.saturating_pow(attempt - 1)).min(cap);
                    ready(black_box(delay)).await;
                }
                ended => break ended,
            }
        };
        let _ = black_box(answer);
    }
}
