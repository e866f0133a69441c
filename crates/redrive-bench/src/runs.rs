//! The whole engine: draining a queue, with and without failures, compared with the bare loop.

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use redrive::{Backoff, Failure, Jitter, Policy, PolicySpec, StoreUrl};
use redrive_engine::{
    Call, Engine, ExecHandler, ExecSpec, Handler, Outcome, Queue, Stopper, Until, handler_fn,
};
use redrive_store::{NewRun, Store};
use tokio::{io::AsyncWriteExt, process::Command, task::JoinSet};

use crate::{
    bench_store::BenchStore,
    error::{BenchError, failed},
    http_runs,
    measurement::Measurement,
    run_backend::{PAYLOAD, at},
    sizes::scale,
    stream_runs,
    usage::{Stopwatch, Usage, median, peak_memory},
};

#[derive(Debug, Args)]
pub(crate) struct RunsBenchArgs {
    /// What handles the runs
    #[arg(long, value_enum, default_value_t = HandlerKind::Noop, value_name = "HANDLER")]
    handler: HandlerKind,

    /// Amount of work, from 0.001 to 100; 1 is 100 000 runs, 2 000 programs or 50 000 requests
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    pub(crate) scale: f64,

    /// Runs handled at once
    #[arg(long, default_value = "256", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) concurrency: u16,

    /// Connections to PostgreSQL, for Redrive and for the bare loop; SQLite has one writer
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

impl RunsBenchArgs {
    pub(crate) fn with_max_concurrency(&self, max: u16) -> Self {
        Self { concurrency: self.concurrency.min(max), ..*self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HandlerKind {
    /// A Rust function that does nothing
    Noop,
    /// A program that does nothing, started for each run
    Exec,
    /// A program that answers without a value, started once
    Stream,
    /// A request to a server that does nothing
    Http,
}

pub(crate) const QUEUE: &str = "bench";

/// Runs that the bare loop claims and finishes at a time.
const BARE_BATCH: usize = 1_000;

/// Redrive and the bare loop take this many turns, so that a slow minute affects both.
const ROUNDS: usize = 3;

const MAX_PROGRAMS: u16 = 16;

/// Runs submitted one by one to an idle engine, to measure the pick-up.
const PICK_UPS: usize = 50;

/// The pause before each pick-up, long enough for the worker loop to become idle.
const IDLE: Duration = Duration::from_millis(20);

pub(crate) async fn run(
    args: &RunsBenchArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Measurement>, BenchError> {
    let bench_store = BenchStore::create(store_url, args.connections).await?;
    bench_store.measure(async |bench_store| measure(args, bench_store).await).await
}

async fn measure(
    args: &RunsBenchArgs,
    bench_store: &BenchStore,
) -> Result<Vec<Measurement>, BenchError> {
    let store = bench_store.open().await?;
    let mut measurements = match args.handler {
        HandlerKind::Noop => measure_noop(args, bench_store, &store).await?,
        HandlerKind::Exec => measure_exec(args, &store).await?,
        HandlerKind::Stream => {
            stream_runs::measure(args, &store, (100_000.0 * args.scale).ceil() as usize).await?
        }
        HandlerKind::Http => http_runs::measure(args, bench_store, &store).await?,
    };
    let (picked_up, bare) = (pick_up(&store).await?, bare_pick_up(bench_store).await?);
    measurements.push(Measurement::milliseconds("idle pick-up, p50", picked_up, bare));
    if let Some(megabytes) = peak_memory() {
        measurements.push(Measurement::alone("peak memory", megabytes, "MB"));
    }
    Ok(measurements)
}

async fn measure_noop(
    args: &RunsBenchArgs,
    bench_store: &BenchStore,
    store: &Arc<dyn Store>,
) -> Result<Vec<Measurement>, BenchError> {
    let count = (100_000.0 * args.scale).ceil() as usize;
    let noop = handler_fn(|_| async { outcome(false) });
    let failing = handler_fn(|call: Call| async move { outcome(fails_at_first(&call)) });
    let mut rounds = [const { Vec::new() }; 5];
    for _ in 0..ROUNDS {
        let (bare_load, bare) = bare_drain(bench_store, count).await?;
        let (submitted, drained) = drain(args.concurrency, store, noop.clone(), count).await?;
        let (_, retried) = drain(args.concurrency, store, failing.clone(), count).await?;
        let rates = [bare_load, bare.per_second, submitted.per_second, drained.per_second];
        let rates = rates.into_iter().chain([retried.per_second * 1.2]);
        rounds.iter_mut().zip(rates).for_each(|(round, rate)| round.push(rate));
    }
    let [bare_load, bare, submitted, drained, retried] = rounds.map(median);
    Ok(vec![
        Measurement::rate("runs submitted", submitted, bare_load),
        Measurement::rate("runs drained", drained, bare),
        Measurement::rate("attempts, 20 % failing once", retried, bare),
    ])
}

/// Whether this is the first attempt of one run in five.
pub(crate) fn fails_at_first(call: &Call) -> bool {
    let number = || call.details.get("payload")?.get("n")?.as_u64();
    call.attempt.0 == 1 && number().is_some_and(|n| n.is_multiple_of(5))
}

/// The outcome of a handler that does nothing, or fails.
pub(crate) fn outcome(fails: bool) -> Outcome {
    if fails {
        return Outcome::Failed(Failure::exit(75, "the first try of one in five"));
    }
    Outcome::Answered { value: None, verdict: None }
}

async fn measure_exec(
    args: &RunsBenchArgs,
    store: &Arc<dyn Store>,
) -> Result<Vec<Measurement>, BenchError> {
    let count = (2_000.0 * args.scale).ceil() as usize;
    let args = args.with_max_concurrency(MAX_PROGRAMS);
    let concurrency = args.concurrency.into();
    let bare = bare_spawns(count, concurrency).await?;
    let spec = ExecSpec::new(vec!["true".to_owned()], ".");
    let handler: Arc<dyn Handler> = Arc::new(ExecHandler::new(spec).map_err(failed)?);
    let (_, drained) = drain(args.concurrency, store, handler, count).await?;
    Ok(vec![Measurement::rate("programs run", drained.per_second, bare)])
}

/// Submits runs and drains them with an engine; returns the usage of both.
pub(crate) async fn drain(
    concurrency: u16,
    store: &Arc<dyn Store>,
    handler: Arc<dyn Handler>,
    count: usize,
) -> Result<(Usage, Usage), BenchError> {
    let stopwatch = Stopwatch::start();
    submit(store, count).await?;
    let submitted = stopwatch.usage_for(count);
    let queue = queue(concurrency, handler)?;
    let stopwatch = Stopwatch::start();
    drain_queue(store, queue).await?;
    Ok((submitted, stopwatch.usage_for(count)))
}

pub(crate) async fn drain_queue(store: &Arc<dyn Store>, queue: Queue) -> Result<(), BenchError> {
    let (_stopper, stop) = Stopper::new();
    Engine::new(store.clone()).with_queue(queue).run(stop, Until::Drained).await.map_err(failed)
}

/// A queue that retries failed runs at once.
pub(crate) fn queue(concurrency: u16, handler: Arc<dyn Handler>) -> Result<Queue, BenchError> {
    let policy = PolicySpec {
        max_attempts: Some(3),
        backoff: Backoff::Fixed,
        base: Duration::from_micros(1),
        jitter: Jitter::None,
        ..PolicySpec::default()
    };
    Ok(Queue::new(QUEUE, handler)
        .with_policy(Policy::new(policy).map_err(failed)?)
        .with_concurrency(concurrency.into()))
}

pub(crate) async fn submit(store: &Arc<dyn Store>, count: usize) -> Result<(), BenchError> {
    let mut payload: serde_json::Value = serde_json::from_str(PAYLOAD).map_err(failed)?;
    let mut batch = Vec::new();
    for n in 0..count {
        if let Some(object) = payload.as_object_mut() {
            object.insert("n".to_owned(), n.into());
        }
        batch.push(NewRun::new(QUEUE, &payload, at(0)).map_err(failed)?);
        if batch.len() == BARE_BATCH || n + 1 == count {
            store.submit_runs(&batch, at(0)).await.map_err(failed)?;
            batch.clear();
        }
    }
    Ok(())
}

/// Rows loaded per second (PostgreSQL: by COPY) on one connection after the other, and the usage of claims and
/// finishes by bare loops, one per connection.
pub(crate) async fn bare_drain(
    bench_store: &BenchStore,
    count: usize,
) -> Result<(f64, Usage), BenchError> {
    let loops = bench_store.bare_loops().await?;
    let share = count.div_ceil(loops.len().max(1));
    let mut ready = Vec::new();
    let (start, mut loaded) = (Instant::now(), 0.0);
    for mut backend in loops {
        for _ in 0..share.div_ceil(BARE_BATCH) {
            backend.load(BARE_BATCH).await?;
            loaded += BARE_BATCH as f64;
        }
        ready.push(backend);
    }
    let load = loaded / start.elapsed().as_secs_f64();
    let mut tasks = JoinSet::new();
    let stopwatch = Stopwatch::start();
    for mut backend in ready {
        tasks.spawn(async move {
            let mut done = 0;
            while backend.claim(BARE_BATCH).await? > 0 {
                done += backend.finish(BARE_BATCH).await?;
            }
            Ok::<usize, BenchError>(done)
        });
    }
    let mut done = 0;
    while let Some(ended) = tasks.join_next().await {
        done += ended.map_err(failed)??;
    }
    Ok((load, stopwatch.usage_for(done)))
}

/// Programs per second of a loop that starts them with the same pipes and does nothing else.
async fn bare_spawns(count: usize, concurrency: usize) -> Result<f64, BenchError> {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for lane in 0..concurrency {
        let share = count / concurrency + usize::from(lane < count % concurrency);
        tasks.spawn(async move {
            for _ in 0..share {
                let mut child = Command::new("true")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .map_err(failed)?;
                if let Some(mut stdin) = child.stdin.take() {
                    // A program that has exited does not read.
                    _ = stdin.write_all(PAYLOAD.as_bytes()).await;
                }
                child.wait_with_output().await.map_err(failed)?;
            }
            Ok::<(), BenchError>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(failed)??;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// Milliseconds from the submission of a run to the start of its handler, in an idle engine.
async fn pick_up(store: &Arc<dyn Store>) -> Result<f64, BenchError> {
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let started = Mutex::new(started);
    let handler = handler_fn(move |_| {
        if let Ok(started) = started.lock() {
            // The receiver lives as long as the engine runs.
            _ = started.send(Instant::now());
        }
        async { Outcome::Answered { value: None, verdict: None } }
    });
    let engine = Engine::new(store.clone()).with_queue(Queue::new(QUEUE, handler));
    let (stopper, stop) = Stopper::new();
    let serving = tokio::spawn(async move { engine.run(stop, Until::Stopped).await });
    let mut times = Vec::new();
    for _ in 0..PICK_UPS {
        tokio::time::sleep(IDLE).await;
        let submitted = Instant::now();
        submit(store, 1).await?;
        if let Some(started) = starts.recv().await {
            times.push(started.duration_since(submitted).as_secs_f64() * 1_000.0);
        }
    }
    stopper.stop();
    serving.await.map_err(failed)?.map_err(failed)?;
    Ok(median(times))
}

/// Milliseconds for two bare commits, one after the other: insert a run, claim it.
async fn bare_pick_up(bench_store: &BenchStore) -> Result<f64, BenchError> {
    let mut loops = bench_store.bare_loops().await?;
    let Some(backend) = loops.first_mut() else { return Ok(f64::NAN) };
    let mut times = Vec::new();
    for _ in 0..PICK_UPS {
        tokio::time::sleep(IDLE).await;
        let start = Instant::now();
        backend.insert(1).await?;
        backend.claim(1).await?;
        times.push(start.elapsed().as_secs_f64() * 1_000.0);
        backend.finish(1).await?;
    }
    Ok(median(times))
}
