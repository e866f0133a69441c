//! What retrying costs a call.

use std::{
    cell::Cell,
    future::ready,
    hint::black_box,
    time::{Duration, Instant},
};

use clap::Args;
use redrive::{Failure as CallFailure, Preset, retry};
use serde::Serialize;

use super::seconds;
use crate::{
    exit::Failure,
    output::{Column, Row},
};

/// The arguments of `bench retry`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How long to measure, from 0.01 to 600
    #[arg(long, default_value = "2", value_name = "S", value_parser = seconds)]
    seconds: f64,
}

/// What a call takes, beside what it takes in a loop written by hand.
#[derive(Debug, Serialize)]
pub(crate) struct Cost {
    operation: &'static str,
    ns_per_call: f64,
    bare_ns_per_call: f64,
    ratio: f64,
}

impl Cost {
    fn new(operation: &'static str, ns: f64, bare_ns: f64) -> Self {
        let rounded = |number: f64| (number * 10.0).round() / 10.0;
        let ratio = (ns / bare_ns * 1_000.0).round() / 1_000.0;
        Self { operation, ns_per_call: rounded(ns), bare_ns_per_call: rounded(bare_ns), ratio }
    }
}

impl Row for Cost {
    const COLUMNS: &'static [Column] = &[
        Column::text("operation"),
        Column::number("ns per call"),
        Column::number("bare loop"),
        Column::number("ratio"),
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

/// Calls between two looks at the clock.
const CHUNK: u32 = 10_000;

/// Turns between the two that are compared: both meet the same weather.
const ROUNDS: u32 = 20;

/// Measures on this thread. The waits themselves are left out: they take no time here.
pub(crate) async fn run(arguments: &Arguments) -> Result<Vec<Cost>, Failure> {
    let round = Duration::from_secs_f64(arguments.seconds / f64::from(4 * ROUNDS));
    let mut costs = Vec::new();
    for (operation, failures) in [("success at once", 0), ("success after one failure", 1)] {
        let (mut ns, mut bare_ns) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ns.push(ns_per_call(round, async |times| retried(times, failures).await).await);
            bare_ns.push(ns_per_call(round, async |times| by_hand(times, failures).await).await);
        }
        costs.push(Cost::new(operation, median(ns), median(bare_ns)));
    }
    Ok(costs)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
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

/// Fails so often, and then gives a number.
async fn operation(failures: &Cell<u32>, number: u32) -> Result<u32, CallFailure> {
    let left = black_box(failures.get());
    if left == 0 {
        return Ok(black_box(number));
    }
    failures.set(left - 1);
    Err(CallFailure::http(503, None, "busy"))
}

async fn retried(times: u32, failures: u32) {
    let policy = Preset::Stage.policy();
    for number in 0..times {
        let left = Cell::new(failures);
        let call = retry(black_box(&policy), || operation(&left, number));
        // Only who fails needs a wait that takes no time.
        let answer = if failures == 0 { call.await } else { call.sleep(|_| ready(())).await };
        let _ = black_box(answer);
    }
}

/// What one would write: the attempts, the power, the cap.
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
