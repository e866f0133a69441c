//! What a run costs in a large store: many runs and few of them, in turns, on tables that hold millions already.

use clap::Args;
use redrive::StoreUrl;
use redrive_engine::handler_fn;

use crate::{
    bench_store::BenchStore,
    error::BenchError,
    measurement::Measurement,
    runs::{drain, outcome},
    usage::{Usage, median},
};

#[derive(Debug, Args)]
pub(crate) struct VolumeBenchArgs {
    /// Finished runs that the store holds before the measurement
    #[arg(long, default_value = "10000000", value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    filled: u32,

    /// Runs of a large turn
    #[arg(long, default_value = "1000000", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    many: u32,

    /// Runs of a small turn
    #[arg(long, default_value = "100000", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    few: u32,

    /// Rounds, each with a small and a large turn
    #[arg(long, default_value = "3", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,

    /// Runs handled at once
    #[arg(long, default_value = "256", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: u16,

    /// Connections to PostgreSQL; SQLite has one writer
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// The store is filled by turns of this size.
const FILL: u32 = 1_000_000;

pub(crate) async fn run(
    args: &VolumeBenchArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Measurement>, BenchError> {
    let bench_store = BenchStore::create(store_url, args.connections).await?;
    bench_store.measure(async |bench_store| measure(args, bench_store).await).await
}

/// The cost of submitting and draining a turn.
struct Turn {
    submit_us: f64,
    drain_us: f64,
    /// Bytes of the log for each run, on PostgreSQL.
    log: Option<f64>,
}

async fn measure(
    args: &VolumeBenchArgs,
    bench_store: &BenchStore,
) -> Result<Vec<Measurement>, BenchError> {
    let mut left = args.filled;
    while left > 0 {
        let runs = left.min(FILL);
        turn(args, bench_store, runs).await?;
        left -= runs;
    }
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        few.push(turn(args, bench_store, args.few).await?);
        many.push(turn(args, bench_store, args.many).await?);
    }
    let of = |turns: &[Turn], part: fn(&Turn) -> f64| median(turns.iter().map(part).collect());
    let both = |name, part| Measurement::microseconds(name, of(&many, part), of(&few, part));
    let mut measurements = vec![
        both("a run submitted, many beside few", |turn| turn.submit_us),
        both("a run drained, many beside few", |turn| turn.drain_us),
        both("a run, many beside few", |turn| turn.submit_us + turn.drain_us),
    ];
    if many.iter().any(|turn| turn.log.is_some()) {
        let log = of(&many, |turn| turn.log.unwrap_or_default());
        measurements.push(Measurement::alone("log of a run", log, "bytes"));
    }
    Ok(measurements)
}

async fn turn(
    args: &VolumeBenchArgs,
    bench_store: &BenchStore,
    runs: u32,
) -> Result<Turn, BenchError> {
    // A store of its own, as that of a process that starts: what it remembers is not part of the cost.
    let store = bench_store.open().await?;
    let noop = handler_fn(|_| async { outcome(false) });
    let log_before = bench_store.log_position().await?;
    let (submitted, drained) = drain(args.concurrency, &store, noop, runs as usize).await?;
    let log_after = bench_store.log_position().await?;
    let micros = |usage: Usage| 1e6 / usage.per_second;
    let log = log_after.zip(log_before).map(|(after, before)| (after - before) / f64::from(runs));
    Ok(Turn { submit_us: micros(submitted), drain_us: micros(drained), log })
}
