//! Pipelines: samples through stages that do nothing, and through a stage that sends requests to a server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use redrive::{
    Engine, Handler, IteratorSource, JsonPointer, Operator, Outcome, Pipeline, PipelineControl,
    PipelineStatus, SampleSource, Stage, Stopper, StoreUrl, Until, handler_fn,
};
use redrive_engine::{Call, Clock, IntoSample, SystemClock};
use redrive_store::Store;
use serde_json::json;

use crate::{
    bench_store::BenchStore,
    error::{BenchError, failed},
    measurement::Measurement,
    reply_server::ReplyServer,
    sample_loop::bare_pipeline,
    sizes::scale,
    usage::{median, peak_memory},
};

#[derive(Debug, Args)]
pub(crate) struct PipelineBenchArgs {
    /// Amount of work, from 0.001 to 100; 1 is 100 000 samples, and 20 000 requests to a server
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,

    /// Samples that each stage handles at once
    #[arg(long, default_value = "256", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: u16,

    /// Connections to PostgreSQL, for Redrive and for the bare loop; SQLite has one writer
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// Stages that do nothing.
const STAGES: [&str; 3] = ["clean", "call", "score"];

/// As long as the samples of [`numbers`].
const SAMPLE: &str = r#"{"n":12345,"prompt":"a few words, as there are in most of them"}"#;

/// Redrive and the bare loop take this many turns, so that a slow minute affects both.
const ROUNDS: usize = 3;

/// How long the server takes for each request.
const RESPONSE_TIME: Duration = Duration::from_millis(5);

pub(crate) async fn run(
    args: &PipelineBenchArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Measurement>, BenchError> {
    let bench_store = BenchStore::create(store_url, args.connections).await?;
    bench_store.measure(async |bench_store| measure(args, bench_store).await).await
}

async fn measure(
    args: &PipelineBenchArgs,
    bench_store: &BenchStore,
) -> Result<Vec<Measurement>, BenchError> {
    let store = bench_store.open().await?;
    let samples = (100_000.0 * args.scale).ceil() as u64;
    let noop = handler_fn(|mut call: Call| async move {
        let value = call.details.remove("data");
        Outcome::Answered { value, verdict: None }
    });
    let pipeline =
        STAGES.iter().fold(Pipeline::new("bench", numbers(samples)), |pipeline, name| {
            pipeline.with_stage(stage(args, name, noop.clone()))
        });
    let attempts = (samples * STAGES.len() as u64) as f64;
    let (mut bare, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(bare_pipeline(bench_store, &STAGES, samples, SAMPLE).await?.per_second);
        taken.push(run_pipeline(&store, &pipeline, samples).await?.as_secs_f64());
    }
    let (bare, taken) = (median(bare), median(taken));
    let mut measurements = vec![
        Measurement::rate("stage attempts", attempts / taken, bare),
        Measurement::alone("cost of a sample", taken * 1e6 / samples as f64, "µs"),
    ];
    measurements.push(measure_requests(args, &store).await?);
    if let Some(megabytes) = peak_memory() {
        measurements.push(Measurement::alone("peak memory", megabytes, "MB"));
    }
    Ok(measurements)
}

/// One stage that sends requests to a slow server, compared with a bare client at the same concurrency.
async fn measure_requests(
    args: &PipelineBenchArgs,
    store: &Arc<dyn Store>,
) -> Result<Measurement, BenchError> {
    let samples = (20_000.0 * args.scale.min(5.0)).ceil() as u64;
    let concurrency = usize::from(args.concurrency);
    let server = ReplyServer::new(RESPONSE_TIME)?;
    let bare = server.bare_rate(samples as usize, concurrency).await?;
    let handler: Arc<dyn Handler> = Arc::new(server.handler()?);
    let place: JsonPointer = "/answer".parse().map_err(failed)?;
    let handler = Arc::new(IntoSample { handler, pointer: place });
    let pipeline =
        Pipeline::new("requests", numbers(samples)).with_stage(stage(args, "request", handler));
    let taken = run_pipeline(store, &pipeline, samples).await?;
    Ok(Measurement::rate("requests that take 5 ms", samples as f64 / taken.as_secs_f64(), bare))
}

fn stage(args: &PipelineBenchArgs, name: &str, handler: Arc<dyn Handler>) -> Stage {
    Stage::new(name, handler).with_concurrency(args.concurrency.into())
}

fn numbers(samples: u64) -> Arc<dyn SampleSource> {
    let sample = |n| json!({ "n": n, "prompt": "a few words, as there are in most of them" });
    Arc::new(IteratorSource::new("numbers", move || (0..samples).map(sample)))
}

/// Runs a pipeline over its source and returns the time; fails unless every sample succeeds.
async fn run_pipeline(
    store: &Arc<dyn Store>,
    pipeline: &Pipeline,
    samples: u64,
) -> Result<Duration, BenchError> {
    let start = Instant::now();
    let by = Operator { actor: "bench".to_owned(), at: SystemClock.now(), reason: None };
    let control = PipelineControl::new(store.clone());
    let id = control.start(pipeline, &by).await.map_err(failed)?;
    let engine = Engine::new(store.clone()).with_pipeline(pipeline.clone());
    let (_stopper, stop) = Stopper::new();
    engine.run(stop, Until::Drained).await.map_err(failed)?;
    let taken = start.elapsed();
    let run = control.run(id).await.map_err(failed)?;
    let done = run.filter(|run| {
        run.progress.status == PipelineStatus::Completed && run.progress.counts.succeeded == samples
    });
    match done {
        Some(_) => Ok(taken),
        None => Err(BenchError::new("not every sample succeeded")),
    }
}
