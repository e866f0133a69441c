//! One workload by Redrive alone, in a new store; `bench/peers` compares it with other systems.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use clap::{Args, ValueEnum};
use redrive::{Control, PartitionRules, RawSink, StoreUrl};
use redrive_core::{PartitionStatus, RunState};
use redrive_engine::{Call, handler_fn};
use redrive_store::Store;

use crate::{
    bench_store::{BenchStore, working_folder},
    error::{BenchError, failed},
    measurement::Measurement,
    partitions::{SMALL, extract, grid},
    runs::{drain, fails_at_first, outcome},
};

#[derive(Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// The workload
    #[arg(value_enum)]
    work: WorkloadKind,

    /// How many runs or partitions, up to ten million
    #[arg(long, default_value = "100000", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,

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
    /// Partitions of a hundred rows, written to a folder and validated
    Partitions,
}

struct WorkloadResult {
    units: u64,
    attempts: u64,
    submitted_s: f64,
    drained_s: f64,
}

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
            WorkloadKind::Partitions => partitions(args, store).await,
        }
    });
    let done = done.await?;
    Ok(vec![
        Measurement::alone("done", done.units as f64, "units"),
        Measurement::alone("handled", done.attempts as f64, "attempts"),
        Measurement::alone("submitted in", done.submitted_s, "s"),
        Measurement::alone("drained in", done.drained_s, "s"),
    ])
}

async fn runs(
    args: &WorkloadArgs,
    store: &Arc<dyn Store>,
    fails: fn(&Call) -> bool,
) -> Result<WorkloadResult, BenchError> {
    let attempts = Arc::new(AtomicU64::new(0));
    let counted = attempts.clone();
    let handler = handler_fn(move |call: Call| {
        counted.fetch_add(1, Ordering::Relaxed);
        let fails = fails(&call);
        async move { outcome(fails) }
    });
    let count = args.count as usize;
    let (submitted, drained) = drain(args.concurrency, store, handler, count).await?;
    let stats = store.queue_stats().await.map_err(failed)?;
    let states = stats.iter().flat_map(|queue| &queue.runs);
    let passed = states.filter(|(state, _)| *state == RunState::Passed).map(|(_, runs)| runs).sum();
    Ok(WorkloadResult {
        units: expect_all(passed, args.count.into())?,
        attempts: attempts.load(Ordering::Relaxed),
        submitted_s: count as f64 / submitted.per_second,
        drained_s: count as f64 / drained.per_second,
    })
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
    Ok(WorkloadResult { units, attempts: units, submitted_s, drained_s })
}

/// Fails unless the store has as many finished units as were requested.
fn expect_all(finished: u64, requested: u64) -> Result<u64, BenchError> {
    if finished == requested {
        return Ok(finished);
    }
    Err(BenchError::new(format!("only {finished} of {requested} units are finished")))
}
