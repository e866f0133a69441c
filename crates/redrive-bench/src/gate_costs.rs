//! What open gates add to a drain: the log of PostgreSQL, or the time of SQLite's writer and the bytes that it writes.
//!
//! Drains without gates, behind an open gate, and behind gates with a trip or a limit take turns, so that a slow minute affects
//! all of them. The ratio of each to the drain without gates of the same round counts.

use std::{fs, sync::Arc, time::Duration};

use redrive_core::{GateSettings, GateTrip};
use redrive_engine::{Call, Handler, handler_fn};
use redrive_store::{GateRule, Store};

use crate::{
    bench_store::BenchStore,
    error::{BenchError, failed},
    gates::{GatesBenchArgs, Spread},
    runs::{drain_queue, fails_at_first, outcome, queue},
};

/// What stands before the queue of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrainGate {
    None,
    Open,
    Trip,
    Concurrency,
}

impl DrainGate {
    const ALL: [Self; 4] = [Self::None, Self::Open, Self::Trip, Self::Concurrency];

    fn name(self) -> &'static str {
        match self {
            Self::None => "no gate",
            Self::Open => "an open gate",
            Self::Trip => "a gate with a trip",
            Self::Concurrency => "a gate with a limit",
        }
    }

    fn rules(self) -> Result<Vec<GateRule>, BenchError> {
        let (base, cap) = (Duration::from_secs(10), Duration::from_secs(600));
        let trip = GateTrip { failures: 0.5, of: 20, within: Duration::from_secs(60) };
        let (concurrency, trip) = match self {
            Self::None => return Ok(Vec::new()),
            Self::Open => (None, None),
            Self::Trip => (None, Some(trip)),
            // More than ever run, so that the drain does not wait.
            Self::Concurrency => (Some(1_000_000), None),
        };
        let settings = GateSettings::new(None, concurrency, trip, base, cap).map_err(failed)?;
        Ok(vec![GateRule { name: format!("bench-{self:?}"), is_keyed: false, settings }])
    }
}

/// What a run of a drain cost, by the name of the cost.
type Costs = Vec<(&'static str, &'static str, f64)>;

pub(crate) async fn measure(
    args: &GatesBenchArgs,
    bench_store: &BenchStore,
) -> Result<Vec<Spread>, BenchError> {
    let store = bench_store.open().await?;
    let count = (50_000.0 * args.scale).ceil() as usize;
    let mut rows = Vec::new();
    for (work, fails) in
        [("", (|_| false) as fn(&Call) -> bool), (", 20 % failing once", fails_at_first)]
    {
        // The first drain fills caches and creates pages.
        turn(args, bench_store, &store, DrainGate::None, fails, count).await?;
        let mut rounds: Vec<Vec<(DrainGate, Costs)>> = Vec::new();
        for round in 0..usize::from(args.rounds) {
            let mut turns = Vec::new();
            let mut gates = DrainGate::ALL;
            gates.rotate_left(round % DrainGate::ALL.len());
            for gate in gates {
                turns.push((gate, turn(args, bench_store, &store, gate, fails, count).await?));
            }
            rounds.push(turns);
        }
        rows.extend(report(work, &rounds));
    }
    Ok(rows)
}

/// The cost without gates, and the ratio of each kind to it.
fn report(work: &str, rounds: &[Vec<(DrainGate, Costs)>]) -> Vec<Spread> {
    let costs = rounds.first().and_then(|turns| turns.first());
    let costs = costs.map(|(_, costs)| costs.clone()).unwrap_or_default();
    let mut rows = Vec::new();
    for (index, (name, unit, _)) in costs.into_iter().enumerate() {
        let of = |gate: DrainGate| -> Vec<f64> {
            let turns = rounds.iter().flatten().filter(|(it, _)| *it == gate);
            turns.filter_map(|(_, costs)| costs.get(index).map(|cost| cost.2)).collect()
        };
        let without = of(DrainGate::None);
        for gate in DrainGate::ALL {
            let measure = format!("{name} of a run{work}, {}", gate.name());
            if gate == DrainGate::None {
                rows.push(Spread::new(measure, &without, unit));
                continue;
            }
            let ratios: Vec<f64> =
                of(gate).iter().zip(&without).map(|(cost, without)| cost / without).collect();
            rows.push(Spread::new(measure, &ratios, "of no gate"));
        }
    }
    rows
}

async fn turn(
    args: &GatesBenchArgs,
    bench_store: &BenchStore,
    store: &Arc<dyn Store>,
    gate: DrainGate,
    fails: fn(&Call) -> bool,
    count: usize,
) -> Result<Costs, BenchError> {
    let handler: Arc<dyn Handler> = handler_fn(move |call: Call| {
        let fails = fails(&call);
        async move { outcome(fails) }
    });
    let queue = queue(args.concurrency, handler)?.with_gates(gate.rules()?);
    crate::runs::submit(store, count).await?;
    let before = counters(bench_store).await?;
    drain_queue(store, queue).await?;
    let after = counters(bench_store).await?;
    let each = before
        .into_iter()
        .zip(after)
        .map(|((name, unit, before), (_, _, after))| (name, unit, (after - before) / count as f64));
    Ok(each.collect())
}

/// What has been written so far. Of SQLite, what its writer did; on Linux only.
async fn counters(bench_store: &BenchStore) -> Result<Costs, BenchError> {
    if let Some(log) = bench_store.log_position().await? {
        return Ok(vec![("log", "bytes", log)]);
    }
    let written = ("bytes written", "bytes", bytes_written());
    let known = [("writer's time", "µs", writer_micros()), written].into_iter();
    Ok(known.filter_map(|(name, unit, value)| Some((name, unit, value?))).collect())
}

/// The processor time of SQLite's writer, which is a thread.
fn writer_micros() -> Option<f64> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let nanos = threads.filter_map(Result::ok).find_map(|thread| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        if name.trim() != "redrive-writer" {
            return None;
        }
        let times = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        times.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanos.map(|nanos| nanos / 1_000.0)
}

fn bytes_written() -> Option<f64> {
    let counts = fs::read_to_string("/proc/self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("wchar: "))?.parse().ok()
}
