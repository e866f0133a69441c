//! A workload by Redrive alone, in a new store: what `bench/peers` puts beside other systems.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use clap::{Args, ValueEnum};
use redrive::{Control, PartitionRules, RawSink};
use redrive_core::{PartitionStatus, RunState};
use redrive_engine::{Call, handler_fn};
use redrive_store::Store;

use super::{
    contender::failed,
    partitions::{SMALL, extract, grid},
    place::Place,
    runs::{Measure, answer, drain, fails_at_first},
};
use crate::{
    context::Context,
    exit::{Exit, Failure},
};

/// The arguments of `bench workload`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What to do
    #[arg(value_enum)]
    work: Work,

    /// How many of them, up to ten million
    #[arg(long, default_value = "100000", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,

    /// How many at once
    #[arg(long, default_value = "256", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: u16,

    /// Connections to PostgreSQL; SQLite has one writer
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Work {
    /// Runs that a Rust function handles, which does nothing
    Runs,
    /// The same, but one in five fails at its first attempt and is tried again at once
    FailingRuns,
    /// Partitions of a hundred rows, written to a folder and judged
    Partitions,
}

/// What came of it.
struct Done {
    units: u64,
    attempts: u64,
    submitted_s: f64,
    drained_s: f64,
}

/// Measures, and removes what it made.
pub(crate) async fn run(arguments: &Arguments, context: &Context) -> Result<Vec<Measure>, Failure> {
    let place = Place::new(context, arguments.connections).await?;
    let done = place.measured(async |place| {
        let store = place.store().await?;
        match arguments.work {
            Work::Runs => runs(arguments, &store, |_| false).await,
            Work::FailingRuns => runs(arguments, &store, fails_at_first).await,
            Work::Partitions => partitions(arguments, store).await,
        }
    });
    let done = done.await?;
    Ok(vec![
        Measure::alone("done", done.units as f64, "units"),
        Measure::alone("handled", done.attempts as f64, "attempts"),
        Measure::alone("submitted in", done.submitted_s, "s"),
        Measure::alone("drained in", done.drained_s, "s"),
    ])
}

async fn runs(
    arguments: &Arguments,
    store: &Arc<dyn Store>,
    fails: fn(&Call) -> bool,
) -> Result<Done, Failure> {
    let attempts = Arc::new(AtomicU64::new(0));
    let counted = attempts.clone();
    let handler = handler_fn(move |call: Call| {
        counted.fetch_add(1, Ordering::Relaxed);
        let fails = fails(&call);
        async move { answer(fails) }
    });
    let count = arguments.count as usize;
    let (submitted, drained) = drain(arguments.concurrency, store, handler, count).await?;
    let stats = store.queue_stats().await.map_err(failed)?;
    let states = stats.iter().flat_map(|queue| &queue.runs);
    let passed = states.filter(|(state, _)| *state == RunState::Passed).map(|(_, runs)| runs).sum();
    Ok(Done {
        units: all(passed, arguments.count.into())?,
        attempts: attempts.load(Ordering::Relaxed),
        submitted_s: count as f64 / submitted.per_second,
        drained_s: count as f64 / drained.per_second,
    })
}

async fn partitions(arguments: &Arguments, store: Arc<dyn Store>) -> Result<Done, Failure> {
    let folder = tempfile::Builder::new().prefix("redrive-bench-").tempdir_in(".");
    let folder = folder.map_err(failed)?;
    let raw = RawSink::folder(folder.path());
    let control = Control::new(store.clone(), PartitionRules::default(), raw.clone());
    let grid = grid(SMALL, 0, arguments.count as usize)?;
    let asked_for = grid.len();
    let (asked, extracted) = extract(&control, raw, grid, arguments.concurrency.into()).await?;
    let counts = store.partition_counts().await.map_err(failed)?;
    let good = counts.iter().filter(|count| count.status == PartitionStatus::Success);
    let units = all(good.map(|count| count.partitions).sum(), asked_for)?;
    let (submitted_s, drained_s) = (asked.as_secs_f64(), extracted.as_secs_f64());
    Ok(Done { units, attempts: units, submitted_s, drained_s })
}

/// As many as there should be, as the store says.
fn all(done: u64, asked_for: u64) -> Result<u64, Failure> {
    if done == asked_for {
        return Ok(done);
    }
    Err(Failure::new(Exit::Error, format!("only {done} of {asked_for} were done")))
}
