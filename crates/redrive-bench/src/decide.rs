//! Decisions per second, compared with the bare formula.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use clap::Args;
use redrive::{Decision, Failure, History, JitterKey, JitterSeed, Preset, RunId, Unit, decide};

use crate::{measurement::Throughput, sizes::seconds};

#[derive(Debug, Args)]
pub(crate) struct DecideBenchArgs {
    /// How long to measure, from 0.01 to 600
    #[arg(long, default_value = "2", value_name = "S", value_parser = seconds)]
    seconds: f64,
}

/// Decisions between two reads of the clock.
const CHUNK: u32 = 10_000;

/// Measures on this thread.
pub(crate) fn run(args: &DecideBenchArgs) -> Vec<Throughput> {
    let time = Duration::from_secs_f64(args.seconds / 2.0);
    let mut rates = Vec::new();
    for (operation, preset) in [("decide", Preset::Run), ("decide with jitter", Preset::Stage)] {
        let rate = per_second(time / 2, |n| deciding(preset, n));
        let bare = per_second(time / 2, |n| bare_formula(preset, n));
        rates.push(Throughput::new(operation, 1, rate, bare));
    }
    rates
}

fn per_second(time: Duration, mut chunk: impl FnMut(u32)) -> f64 {
    let start = Instant::now();
    let mut done = 0.0;
    while start.elapsed() < time {
        chunk(CHUNK);
        done += f64::from(CHUNK);
    }
    done / start.elapsed().as_secs_f64()
}

fn deciding(preset: Preset, times: u32) {
    let policy = preset.policy();
    let jitter = JitterKey::new(JitterSeed::default(), &Unit::Run(RunId(7)));
    let failures = [
        Failure::http(503, None, "busy"),
        Failure::http(429, Some(Duration::from_secs(5)), "slow down"),
        Failure::timeout("too slow"),
    ];
    let now = jiff::Timestamp::UNIX_EPOCH;
    for n in 0..times {
        let Some(failure) = failures.get(n as usize % failures.len()) else { continue };
        let history = History { counted: n % 8, first_attempt_at: Some(now), ..History::default() };
        let decision: Decision =
            decide(black_box(&policy), black_box(&history), failure, now, jitter);
        black_box(decision);
    }
}

/// The delay of a retry written by hand: the power and the cap.
fn bare_formula(preset: Preset, times: u32) {
    let spec = preset.spec();
    let (base, cap) = (spec.base.as_secs_f64(), spec.cap.as_secs_f64());
    for n in 0..times {
        let power = black_box(2.0_f64).powi(i32::try_from(n % 8).unwrap_or(0));
        let delay = (black_box(base) * power).min(black_box(cap));
        black_box(Duration::from_secs_f64(delay));
    }
}
