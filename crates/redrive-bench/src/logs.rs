//! What keeping logs costs: drains whose handlers print, and drains of handlers that do not, with and without logs in turns.

use std::{path::Path, sync::Arc, time::Instant};

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
const KEPT: [(&str, usize, bool); 3] =
    [("no logs", 0, false), ("the default", 64 * 1024, false), ("all logs", 64 * 1024, true)];

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
    let mut rates = [const { Vec::new() }; KEPT.len()];
    // The first drain fills caches.
    turn(store, queue, 0, count).await?;
    for round in 0..usize::from(args.rounds) {
        for place in 0..KEPT.len() {
            let kind = (round + place) % KEPT.len();
            let rate = turn(store, queue, kind, count).await?;
            rates.iter_mut().nth(kind).map(|rates| rates.push(rate)).unwrap_or_default();
        }
    }
    let [without, others @ ..] = rates;
    let mut rows = vec![Spread::new(format!("{work}, {}", KEPT[0].0), &without, "runs/s")];
    for ((name, ..), rates) in KEPT.iter().skip(1).zip(others) {
        let shares: Vec<f64> =
            rates.iter().zip(&without).map(|(rate, without)| rate / without).collect();
        rows.push(Spread::new(format!("{work}, {name}"), &shares, "of no logs"));
    }
    Ok(rows)
}

async fn turn(
    store: &Arc<dyn Store>,
    queue: &Queue,
    kind: usize,
    count: usize,
) -> Result<f64, BenchError> {
    let (_, bytes, all) = KEPT[kind % KEPT.len()];
    let successes = LogLimits::default().successes.filter(|_| !all);
    let limits = WorkerLimits { log: LogLimits { bytes, successes }, ..queue.limits };
    submit(store, count).await?;
    let started = Instant::now();
    drain_queue(store, Queue { limits, ..queue.clone() }).await?;
    Ok(count as f64 / started.elapsed().as_secs_f64())
}
