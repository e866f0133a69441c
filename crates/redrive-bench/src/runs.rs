//! The whole engine: draining a queue, with and without failures, beside the bare loop.

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use redrive::{Backoff, Failure as UnitFailure, Jitter, Policy, PolicySpec};
use redrive_engine::{
    Call, Engine, ExecHandler, ExecSpec, Handler, Outcome, Queue, Stopper, Until, handler_fn,
};
use redrive_store::{NewRun, Store};
use serde::Serialize;
use tokio::{io::AsyncWriteExt, process::Command, task::JoinSet};

use super::{
    contender::{PAYLOAD, at, failed},
    grouped, http,
    place::Place,
    scale,
    spent::{Begun, Spent},
    stream,
};
use crate::{
    context::Context,
    exit::Failure,
    output::{Column, Row},
};

/// The arguments of `bench runs`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What handles the runs
    #[arg(long, value_enum, default_value_t = Handling::Noop, value_name = "HANDLER")]
    handler: Handling,

    /// How much to do, from 0.001 to 100; 1 is 100 000 runs, 2 000 programs or 50 000 requests
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    pub(super) scale: f64,

    /// Runs handled at once
    #[arg(long, default_value = "256", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(super) concurrency: u16,

    /// Connections to PostgreSQL, for Redrive and for the bare loop alike; SQLite has one writer
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

impl Arguments {
    /// The same, with no more at once.
    pub(super) fn with_at_most(&self, at_once: u16) -> Self {
        Self { concurrency: self.concurrency.min(at_once), ..*self }
    }
}

/// What handles the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Handling {
    /// A Rust function that does nothing
    Noop,
    /// A program that does nothing, started for each run
    Exec,
    /// A program that answers nothing, started once
    Stream,
    /// A request to a server that does nothing
    Http,
}

/// A figure, beside that of the bare loop where there is one.
#[derive(Debug, Serialize)]
pub(crate) struct Measure {
    measure: &'static str,
    value: f64,
    unit: &'static str,
    bare: Option<f64>,
    ratio: Option<f64>,
}

impl Measure {
    pub(super) fn beside(measure: &'static str, value: f64, bare: f64) -> Self {
        let ratio = (value / bare * 1_000.0).round() / 1_000.0;
        let (value, bare) = (value.round(), Some(bare.round()));
        Self { measure, value, unit: "per second", bare, ratio: Some(ratio) }
    }

    /// Milliseconds, beside those of the bare loop.
    fn times(measure: &'static str, value: f64, bare: f64) -> Self {
        let rounded = |number: f64| (number * 1_000.0).round() / 1_000.0;
        let (ratio, bare) = (Some(rounded(value / bare)), Some(rounded(bare)));
        Self { measure, value: rounded(value), unit: "ms", bare, ratio }
    }

    /// Microseconds, beside those of the bare loop.
    pub(super) fn costs(measure: &'static str, value: f64, bare: f64) -> Self {
        Self { unit: "µs", ..Self::times(measure, value, bare) }
    }

    pub(super) fn alone(measure: &'static str, value: f64, unit: &'static str) -> Self {
        let value = (value * 1_000.0).round() / 1_000.0;
        Self { measure, value, unit, bare: None, ratio: None }
    }
}

impl Row for Measure {
    const COLUMNS: &'static [Column] = &[
        Column::text("measure"),
        Column::number("value"),
        Column::text("unit"),
        Column::number("bare loop"),
        Column::number("ratio"),
    ];

    fn cells(&self) -> Vec<String> {
        let number = |n: f64| if n < 1_000.0 { n.to_string() } else { grouped(n) };
        vec![
            self.measure.to_owned(),
            number(self.value),
            self.unit.to_owned(),
            self.bare.map_or_else(String::new, number),
            self.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        ]
    }
}

/// The queue that is measured.
const QUEUE: &str = "bench";

/// Runs claimed and finished at a time by the bare loop.
const BARE_BATCH: usize = 1_000;

/// Programs that run at once, at most.
const MAX_PROGRAMS: u16 = 16;

/// Runs submitted one by one to an idle engine.
const PICK_UPS: usize = 50;

/// How long nothing happens before each of them: the loop has looked for the last time.
const IDLE: Duration = Duration::from_millis(20);

/// Measures, and removes what it made.
pub(crate) async fn run(arguments: &Arguments, context: &Context) -> Result<Vec<Measure>, Failure> {
    let place = Place::new(context, arguments.connections).await?;
    place.measured(async |place| measure(arguments, place).await).await
}

async fn measure(arguments: &Arguments, place: &Place) -> Result<Vec<Measure>, Failure> {
    let store = place.store().await?;
    let mut measures = match arguments.handler {
        Handling::Noop => measure_noop(arguments, place, &store).await?,
        Handling::Exec => measure_exec(arguments, &store).await?,
        Handling::Stream => {
            stream::measure(arguments, &store, (100_000.0 * arguments.scale).ceil() as usize)
                .await?
        }
        Handling::Http => http::measure(arguments, place, &store).await?,
    };
    let (picked_up, bare) = (pick_up(&store).await?, bare_pick_up(place).await?);
    measures.push(Measure::times("idle pick-up, p50", picked_up, bare));
    if let Some(megabytes) = peak_memory() {
        measures.push(Measure::alone("peak memory", megabytes, "MB"));
    }
    Ok(measures)
}

async fn measure_noop(
    arguments: &Arguments,
    place: &Place,
    store: &Arc<dyn Store>,
) -> Result<Vec<Measure>, Failure> {
    let count = (100_000.0 * arguments.scale).ceil() as usize;
    let (bare_load, bare) = bare_drain(place, count).await?;
    let noop = handler_fn(|_| async { answer(false) });
    let (submitted, drained) = drain(arguments.concurrency, store, noop, count).await?;
    let failing = handler_fn(|call: Call| async move { answer(fails_at_first(&call)) });
    let (_, retried) = drain(arguments.concurrency, store, failing, count).await?;
    Ok(vec![
        Measure::beside("runs submitted", submitted.per_second, bare_load),
        Measure::beside("runs drained", drained.per_second, bare.per_second),
        Measure::beside("attempts, 20 % failing once", retried.per_second * 1.2, bare.per_second),
    ])
}

/// Whether this is the first attempt of one run in five.
pub(super) fn fails_at_first(call: &Call) -> bool {
    let number = || call.details.get("payload")?.get("n")?.as_u64();
    call.attempt.0 == 1 && number().is_some_and(|n| n.is_multiple_of(5))
}

/// What a handler says that does nothing, or fails.
pub(super) fn answer(fails: bool) -> Outcome {
    if fails {
        return Outcome::Failed(UnitFailure::exit(75, "the first try of one in five"));
    }
    Outcome::Answered { value: None, verdict: None }
}

async fn measure_exec(
    arguments: &Arguments,
    store: &Arc<dyn Store>,
) -> Result<Vec<Measure>, Failure> {
    let count = (2_000.0 * arguments.scale).ceil() as usize;
    let arguments = arguments.with_at_most(MAX_PROGRAMS);
    let at_once = arguments.concurrency.into();
    let bare = bare_spawns(count, at_once).await?;
    let spec = ExecSpec::new(vec!["true".to_owned()], ".");
    let handler: Arc<dyn Handler> = Arc::new(ExecHandler::new(spec).map_err(failed)?);
    let (_, drained) = drain(arguments.concurrency, store, handler, count).await?;
    Ok(vec![Measure::beside("programs run", drained.per_second, bare)])
}

/// Submits runs and waits until an engine has done them; what each took.
pub(super) async fn drain(
    concurrency: u16,
    store: &Arc<dyn Store>,
    handler: Arc<dyn Handler>,
    count: usize,
) -> Result<(Spent, Spent), Failure> {
    let begun = Begun::now();
    submit(store, count).await?;
    let submitted = begun.done(count);
    let policy = PolicySpec {
        max_attempts: Some(3),
        backoff: Backoff::Fixed,
        base: Duration::from_micros(1),
        jitter: Jitter::None,
        ..PolicySpec::default()
    };
    let queue = Queue::new(QUEUE, handler)
        .with_policy(Policy::new(policy).map_err(failed)?)
        .with_concurrency(concurrency.into());
    let engine = Engine::new(store.clone()).with_queue(queue);
    let (_stopper, stop) = Stopper::new();
    let begun = Begun::now();
    engine.run(stop, Until::Drained).await.map_err(failed)?;
    Ok((submitted, begun.done(count)))
}

async fn submit(store: &Arc<dyn Store>, count: usize) -> Result<(), Failure> {
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

/// Rows loaded per second (PostgreSQL: by COPY) on one connection after the other, and claims and
/// finishes of bare loops, one per connection.
pub(super) async fn bare_drain(place: &Place, count: usize) -> Result<(f64, Spent), Failure> {
    let side = place.bare().await?;
    let share = count.div_ceil(side.len().max(1));
    let mut ready = Vec::new();
    let (start, mut loaded) = (Instant::now(), 0.0);
    for mut contender in side {
        for _ in 0..share.div_ceil(BARE_BATCH) {
            contender.load(BARE_BATCH).await?;
            loaded += BARE_BATCH as f64;
        }
        ready.push(contender);
    }
    let load = loaded / start.elapsed().as_secs_f64();
    let mut tasks = JoinSet::new();
    let begun = Begun::now();
    for mut contender in ready {
        tasks.spawn(async move {
            let mut done = 0;
            while contender.claim(BARE_BATCH).await? > 0 {
                done += contender.finish(BARE_BATCH).await?;
            }
            Ok::<usize, Failure>(done)
        });
    }
    let mut done = 0;
    while let Some(ended) = tasks.join_next().await {
        done += ended.map_err(failed)??;
    }
    Ok((load, begun.done(done)))
}

/// Programs per second of a loop that starts them with the same pipes and does nothing else.
async fn bare_spawns(count: usize, at_once: usize) -> Result<f64, Failure> {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for lane in 0..at_once {
        let share = count / at_once + usize::from(lane < count % at_once);
        tasks.spawn(async move {
            for _ in 0..share {
                let mut child = Command::new("true")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .map_err(failed)?;
                if let Some(mut stdin) = child.stdin.take() {
                    // A program that is gone already does not read.
                    _ = stdin.write_all(PAYLOAD.as_bytes()).await;
                }
                child.wait_with_output().await.map_err(failed)?;
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(failed)??;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// Milliseconds from the submission of a run to the start of its handler, in an idle engine.
async fn pick_up(store: &Arc<dyn Store>) -> Result<f64, Failure> {
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let started = Mutex::new(started);
    let handler = handler_fn(move |_| {
        if let Ok(started) = started.lock() {
            // The measurement listens as long as the engine runs.
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
        if let Some(begun) = starts.recv().await {
            times.push(begun.duration_since(submitted).as_secs_f64() * 1_000.0);
        }
    }
    stopper.stop();
    serving.await.map_err(failed)?.map_err(failed)?;
    Ok(median(times))
}

/// Milliseconds that two bare commits take, one after the other: a run inserted, and claimed.
async fn bare_pick_up(place: &Place) -> Result<f64, Failure> {
    let mut side = place.bare().await?;
    let Some(contender) = side.first_mut() else { return Ok(f64::NAN) };
    let mut times = Vec::new();
    for _ in 0..PICK_UPS {
        tokio::time::sleep(IDLE).await;
        let start = Instant::now();
        contender.insert(1).await?;
        contender.claim(1).await?;
        times.push(start.elapsed().as_secs_f64() * 1_000.0);
        contender.finish(1).await?;
    }
    Ok(median(times))
}

pub(super) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Has what the most is counted anew from here on, where the system can.
pub(super) fn forget_peak_memory() {
    // What cannot be forgotten makes a figure too high, never too low.
    _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory this process ever had, where the system tells.
pub(super) fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes / 1024.0)
}
