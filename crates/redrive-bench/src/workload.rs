//! One workload by Redrive alone, in a new store; `bench/peers` compares it with other systems.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use redrive::{Control, PartitionRules, RawSink, StoreUrl};
use redrive_core::{PartitionStatus, RunState};
use redrive_engine::{Call, Engine, Handler, Stopper, Until, handler_fn};
use redrive_store::Store;

use crate::{
    bench_store::{BenchStore, working_folder},
    error::{BenchError, failed},
    measurement::Measurement,
    partitions::{SMALL, extract, grid},
    runs::{drain, fails_at_first, outcome, queue, submit},
};

#[derive(Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// The workload
    #[arg(value_enum)]
    work: WorkloadKind,

    /// How many runs or partitions, up to a hundred million
    #[arg(long, default_value = "100000", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    count: u32,

    /// With `sustained`: the time over which the runs arrive, in seconds
    #[arg(long, default_value = "60", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,

    /// How many are handled at once
    #[arg(long, default_value = "256", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: u16,

    /// Connections to PostgreSQL; SQLite has one writer
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WorkloadKind {
    /// Runs, handled by a Rust function that does nothing
    Runs,
    /// The same, but one in five fails at its first attempt and is retried at once
    FailingRuns,
    /// Runs that arrive at a steady rate while they are handled
    Sustained,
    /// Partitions of a hundred rows, written to a folder and validated
    Partitions,
}

struct WorkloadResult {
    units: u64,
    attempts: u64,
    submitted_s: f64,
    drained_s: f64,
    /// Attempts in each second; only of a sustained workload.
    by_second: Vec<u64>,
}

/// How often runs of a sustained workload are submitted.
const ARRIVAL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn run(
    args: &WorkloadArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Measurement>, BenchError> {
    let bench_store = BenchStore::create(store_url, args.connections).await?;
    let done = bench_store.measure(async |bench_store| {
        let store = bench_store.open().await?;
        match args.work {
            WorkloadKind::Runs => runs(args, &store, |_| false).await,
            WorkloadKind::FailingRuns => runs(args, &store, fails_at_first).await,
            WorkloadKind::Sustained => sustained(args, &store, bench_store.open().await?).await,
            WorkloadKind::Partitions => partitions(args, store).await,
        }
    });
    let done = done.await?;
    let mut measurements = vec![
        Measurement::alone("done", done.units as f64, "units"),
        Measurement::alone("handled", done.attempts as f64, "attempts"),
        Measurement::alone("submitted in", done.submitted_s, "s"),
        Measurement::alone("drained in", done.drained_s, "s"),
    ];
    let second = |attempts: u64| Measurement::alone("in a second", attempts as f64, "attempts");
    measurements.extend(done.by_second.into_iter().map(second));
    Ok(measurements)
}

async fn runs(
    args: &WorkloadArgs,
    store: &Arc<dyn Store>,
    fails: fn(&Call) -> bool,
) -> Result<WorkloadResult, BenchError> {
    let (handler, attempts) = counting(fails);
    let count = args.count as usize;
    let (submitted, drained) = drain(args.concurrency, store, handler, count).await?;
    Ok(WorkloadResult {
        units: expect_all(passed(store).await?, args.count.into())?,
        attempts: attempts.load(Ordering::Relaxed),
        submitted_s: count as f64 / submitted.per_second,
        drained_s: count as f64 / drained.per_second,
        by_second: Vec::new(),
    })
}

/// A handler that does nothing, and the number of its calls.
fn counting(fails: fn(&Call) -> bool) -> (Arc<dyn Handler>, Arc<AtomicU64>) {
    let attempts = Arc::new(AtomicU64::new(0));
    let counted = attempts.clone();
    let handler = handler_fn(move |call: Call| {
        counted.fetch_add(1, Ordering::Relaxed);
        let fails = fails(&call);
        async move { outcome(fails) }
    });
    (handler, attempts)
}

async fn passed(store: &Arc<dyn Store>) -> Result<u64, BenchError> {
    let stats = store.queue_stats().await.map_err(failed)?;
    let states = stats.iter().flat_map(|queue| &queue.runs);
    Ok(states.filter(|(state, _)| *state == RunState::Passed).map(|(_, runs)| runs).sum())
}

/// Submits runs evenly over a time, with connections of their own, while an engine handles them. The drain's time is
/// that of both: it is the time over which runs arrive, unless the engine falls behind.
async fn sustained(
    args: &WorkloadArgs,
    store: &Arc<dyn Store>,
    submitting: Arc<dyn Store>,
) -> Result<WorkloadResult, BenchError> {
    let (handler, attempts) = counting(|_| false);
    let engine = Engine::new(store.clone()).with_queue(queue(args.concurrency, handler)?);
    let (stopper, stop) = Stopper::new();
    let serving = tokio::spawn(async move { engine.run(stop, Until::Stopped).await });
    let (count, lasts) = (args.count as usize, f64::from(args.seconds));
    let (start, mut ticks) = (Instant::now(), tokio::time::interval(ARRIVAL_INTERVAL));
    let (mut submitted, mut submitted_s, mut counted, mut by_second) = (0, lasts, 0, Vec::new());
    while counted < u64::from(args.count) {
        ticks.tick().await;
        let due = (start.elapsed().as_secs_f64() / lasts).min(1.0) * count as f64;
        let due = due as usize;
        if due > submitted {
            submit(&submitting, due - submitted).await?;
            (submitted, submitted_s) = (due, start.elapsed().as_secs_f64());
        }
        let done = attempts.load(Ordering::Relaxed);
        let second_is_over = start.elapsed().as_secs_f64() >= by_second.len() as f64 + 1.0;
        if second_is_over || done >= u64::from(args.count) {
            by_second.push(done - counted);
            counted = done;
        }
    }
    stopper.stop();
    serving.await.map_err(failed)?.map_err(failed)?;
    let drained_s = start.elapsed().as_secs_f64();
    let units = expect_all(passed(store).await?, args.count.into())?;
    Ok(WorkloadResult { units, attempts: counted, submitted_s, drained_s, by_second })
}

async fn partitions(
    args: &WorkloadArgs,
    store: Arc<dyn Store>,
) -> Result<WorkloadResult, BenchError> {
    let folder = working_folder()?;
    let raw = RawSink::folder(folder.path());
    let control = Control::new(store.clone(), PartitionRules::default(), raw.clone());
    let grid = grid(SMALL, 0, args.count as usize)?;
    let requested = grid.len();
    let (requesting, extracting) = extract(&control, raw, grid, args.concurrency.into()).await?;
    let counts = store.partition_counts().await.map_err(failed)?;
    let good = counts.iter().filter(|count| count.status == PartitionStatus::Success);
    let units = expect_all(good.map(|count| count.partitions).sum(), requested)?;
    let (submitted_s, drained_s) = (requesting.as_secs_f64(), extracting.as_secs_f64());
    Ok(WorkloadResult { units, attempts: units, submitted_s, drained_s, by_second: Vec::new() })
}

/// Fails unless the store has as many finished units as were requested.
fn expect_all(finished: u64, requested: u64) -> Result<u64, BenchError> {
    if finished == requested {
        return Ok(finished);
    }
    Err(BenchError::new(format!("only {finished} of {requested} units are finished")))
}
