//! What keeping logs costs: drains whose handlers print, and drains of handlers that do not, with and without logs in turns.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Instant};

use clap::Args;
use redrive::StoreUrl;
use redrive_engine::{ExecHandler, ExecSpec, Handler, LogLimits, Queue, WorkerLimits, handler_fn};
use redrive_store::Store;

use crate::{
    bench_store::BenchStore,
    error::{BenchError, failed},
    gates::Spread,
    runs::{drain_queue, outcome, queue, submit},
    sizes::scale,
};

/// 1 KB in ten lines.
const PRINTS: &str = r#"i=0; while [ $i -lt 10 ]; do
printf '%s\n' 'a line of a log that a handler writes, as long as such lines often are: a hundred bytes with its end' >&2
i=$((i + 1)); done"#;

#[derive(Debug, Args)]
pub(crate) struct LogsBenchArgs {
    /// Amount of work, from 0.001 to 100; 1 is 2 000 programs and 100 000 calls of a Rust function in each drain
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,

    /// Rounds of drains, in each of which all kinds take turns
    #[arg(long, default_value = "5", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,

    /// Connections to PostgreSQL; SQLite has one writer
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// How much of the logs a drain keeps.
#[derive(Clone, Copy)]
struct Kept {
    name: &'static str,
    bytes: usize,
    all_successes: bool,
}

const NO_LOGS: Kept = Kept { name: "no logs", bytes: 0, all_successes: false };
const DEFAULT: Kept = Kept { name: "the default", bytes: 64 * 1024, all_successes: false };
const ALL_LOGS: Kept = Kept { name: "all logs", all_successes: true, ..DEFAULT };

pub(crate) async fn run(
    args: &LogsBenchArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Spread>, BenchError> {
    let argv = ["/bin/sh", "-c", PRINTS].map(str::to_owned).to_vec();
    let exec = ExecHandler::new(ExecSpec::new(argv, Path::new("/"))).map_err(failed)?;
    let quiet: Arc<dyn Handler> = handler_fn(|_| async { outcome(false) });
    let works = [
        ("programs that print 1 KB", Arc::new(exec) as Arc<dyn Handler>, 2_000.0, 8),
        ("Rust functions that print nothing", quiet, 100_000.0, 256),
    ];
    let bench_store = BenchStore::create(store_url, args.connections).await?;
    let measured = bench_store.measure(async |bench_store| {
        let store = bench_store.open().await?;
        let mut rows = Vec::new();
        for (work, handler, runs, concurrency) in works {
            let count = (runs * args.scale).ceil() as usize;
            let queue = queue(concurrency, handler)?;
            rows.extend(compare(args, &store, work, &queue, count).await?);
        }
        Ok(rows)
    });
    measured.await
}

/// The rate without logs, and of each kind the share of it that is left.
async fn compare(
    args: &LogsBenchArgs,
    store: &Arc<dyn Store>,
    work: &str,
    queue: &Queue,
    count: usize,
) -> Result<Vec<Spread>, BenchError> {
    let (mut rates, mut kinds) = (BTreeMap::<_, Vec<f64>>::new(), [NO_LOGS, DEFAULT, ALL_LOGS]);
    // The first drain fills caches.
    turn(store, queue, NO_LOGS, count).await?;
    for _ in 0..args.rounds {
        for kept in kinds {
            rates.entry(kept.name).or_default().push(turn(store, queue, kept, count).await?);
        }
        kinds.rotate_left(1);
    }
    let of = |kept: Kept| rates.get(kept.name).cloned().unwrap_or_default();
    let without = of(NO_LOGS);
    let share = |kept: Kept| {
        let shares = of(kept).into_iter().zip(&without).map(|(rate, without)| rate / without);
        Spread::new(format!("{work}, {}", kept.name), &shares.collect::<Vec<_>>(), "of no logs")
    };
    let alone = Spread::new(format!("{work}, {}", NO_LOGS.name), &without, "runs/s");
    Ok(vec![alone, share(DEFAULT), share(ALL_LOGS)])
}

async fn turn(
    store: &Arc<dyn Store>,
    queue: &Queue,
    kept: Kept,
    count: usize,
) -> Result<f64, BenchError> {
    let successes = LogLimits::default().successes.filter(|_| !kept.all_successes);
    let log = LogLimits { bytes: kept.bytes, successes };
    let limits = WorkerLimits { log, ..queue.limits };
    submit(store, count).await?;
    let started = Instant::now();
    drain_queue(store, Queue { limits, ..queue.clone() }).await?;
    Ok(count as f64 / started.elapsed().as_secs_f64())
}
