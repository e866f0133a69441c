//! Insert, claim and finish: Redrive's store and a bare loop, in turns on one database.

use std::time::{Duration, Instant};

use clap::Args;
use redrive::StoreUrl;
use redrive_engine::random_worker_id;
use tokio::task::JoinSet;

use crate::{
    bench_store::BenchStore,
    error::{BenchError, failed},
    measurement::Throughput,
    redrive_store::RedriveStore,
    run_backend::RunBackends,
    sizes::scale,
    usage::median_time,
};

#[derive(Debug, Args)]
pub(crate) struct StoreBenchArgs {
    /// Amount of work, from 0.001 to 100; 1 takes about half a minute
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,

    /// Connections to PostgreSQL, for Redrive and for the bare loop; SQLite has one writer
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// Batch sizes, and how many rows each is measured with at scale 1.
const BATCHES: [(usize, f64); 4] =
    [(1, 2_000.0), (32, 16_000.0), (256, 60_000.0), (1_000, 100_000.0)];

/// Redrive and the bare loop take this many turns, so that a slow minute affects both.
const ROUNDS: usize = 5;

/// The time that each operation took, round by round.
#[derive(Debug, Default)]
struct OperationTimes {
    insert: Vec<Duration>,
    claim: Vec<Duration>,
    finish: Vec<Duration>,
}

pub(crate) async fn run(
    args: &StoreBenchArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Throughput>, BenchError> {
    let bench_store = BenchStore::create(store_url, args.connections).await?;
    bench_store.measure(async |bench_store| measure_at(bench_store, args.scale).await).await
}

async fn measure_at(bench_store: &BenchStore, scale: f64) -> Result<Vec<Throughput>, BenchError> {
    let store = bench_store.open().await?;
    let mut ours: RunBackends = Vec::new();
    for _ in 0..bench_store.users() {
        let worker = random_worker_id().map_err(failed)?;
        ours.push(Box::new(RedriveStore::new(store.clone(), &worker)?));
    }
    measure(scale, ours, bench_store.bare_loops().await?).await
}

async fn measure(
    scale: f64,
    mut ours: RunBackends,
    mut bare: RunBackends,
) -> Result<Vec<Throughput>, BenchError> {
    let mut rates = Vec::new();
    for (batch, rows) in BATCHES {
        let batches = ((rows * scale / (batch * ROUNDS) as f64).ceil() as usize).max(1);
        let (mut our_times, mut bare_times) =
            (OperationTimes::default(), OperationTimes::default());
        for _ in 0..ROUNDS {
            ours = round(ours, batch, batches, &mut our_times).await?;
            bare = round(bare, batch, batches, &mut bare_times).await?;
        }
        let rows = (batch * batches) as f64;
        let rate = |time: Duration| rows / time.as_secs_f64().max(1e-9);
        let pairs = [
            ("insert", median_time(our_times.insert), median_time(bare_times.insert)),
            ("claim", median_time(our_times.claim), median_time(bare_times.claim)),
            ("finish", median_time(our_times.finish), median_time(bare_times.finish)),
        ];
        for (operation, our_time, bare_time) in pairs {
            rates.push(Throughput::new(operation, batch, rate(our_time), rate(bare_time)));
        }
    }
    Ok(rates)
}

/// One turn: inserts, claims and finishes the same rows, and records the time of each.
async fn round(
    backends: RunBackends,
    batch: usize,
    batches: usize,
    times: &mut OperationTimes,
) -> Result<RunBackends, BenchError> {
    let start = Instant::now();
    let backends = run_all(backends, batches, StoreOperation::Insert, batch).await?;
    times.insert.push(start.elapsed());
    let start = Instant::now();
    let backends = run_all(backends, batches, StoreOperation::Claim, batch).await?;
    times.claim.push(start.elapsed());
    let start = Instant::now();
    let backends = run_all(backends, batches, StoreOperation::Finish, batch).await?;
    times.finish.push(start.elapsed());
    Ok(backends)
}

#[derive(Debug, Clone, Copy)]
enum StoreOperation {
    Insert,
    Claim,
    Finish,
}

/// Shares batches between backends, which run at once.
async fn run_all(
    backends: RunBackends,
    batches: usize,
    operation: StoreOperation,
    batch: usize,
) -> Result<RunBackends, BenchError> {
    let count = backends.len().max(1);
    let mut tasks = JoinSet::new();
    for (index, mut backend) in backends.into_iter().enumerate() {
        let share = batches / count + usize::from(index < batches % count);
        tasks.spawn(async move {
            for _ in 0..share {
                match operation {
                    StoreOperation::Insert => backend.insert(batch).await?,
                    StoreOperation::Claim => backend.claim(batch).await.map(drop)?,
                    StoreOperation::Finish => backend.finish(batch).await.map(drop)?,
                }
            }
            Ok::<_, BenchError>((index, backend))
        });
    }
    let mut backends = Vec::new();
    while let Some(done) = tasks.join_next().await {
        backends.push(done.map_err(failed)??);
    }
    backends.sort_by_key(|(index, _)| *index);
    Ok(backends.into_iter().map(|(_, backend)| backend).collect())
}
