//! Pipelines: samples through stages that do nothing, and through one that asks a server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use redrive::{
    Engine, Handler, IteratorSource, JsonPointer, Operator, Outcome, Pipeline, PipelineControl,
    PipelineStatus, SampleSource, Stage, Stopper, Until, handler_fn,
};
use redrive_engine::{Call, Clock, IntoSample, SystemClock};
use redrive_store::Store;
use serde_json::json;

use super::{
    contender::failed,
    place::Place,
    requests::Server,
    runs::{Measure, bare_drain, peak_memory},
    scale,
};
use crate::{
    context::Context,
    exit::{Exit, Failure},
};

/// The arguments of `bench pipeline`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How much to do, from 0.001 to 100; 1 is 100 000 samples, and 20 000 for a stage that asks a server
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,

    /// Samples at once in every stage
    #[arg(long, default_value = "256", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: u16,

    /// Connections to PostgreSQL, for Redrive and for the bare loop alike; SQLite has one writer
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// Stages that do nothing.
const STAGES: [&str; 3] = ["clean", "call", "score"];

/// How long the server of the asking stage takes.
const SERVER_TAKES: Duration = Duration::from_millis(5);

/// Measures, and removes what it made.
pub(crate) async fn run(arguments: &Arguments, context: &Context) -> Result<Vec<Measure>, Failure> {
    let place = Place::new(context, arguments.connections).await?;
    place.measured(async |place| measure(arguments, place).await).await
}

async fn measure(arguments: &Arguments, place: &Place) -> Result<Vec<Measure>, Failure> {
    let store = place.store().await?;
    let samples = (100_000.0 * arguments.scale).ceil() as u64;
    let (_, bare) = bare_drain(place, samples as usize).await?;
    let noop = handler_fn(|mut call: Call| async move {
        let value = call.details.remove("data");
        Outcome::Answered { value, verdict: None }
    });
    let pipeline =
        STAGES.iter().fold(Pipeline::new("bench", numbers(samples)), |pipeline, name| {
            pipeline.with_stage(stage(arguments, name, noop.clone()))
        });
    let taken = through(&store, &pipeline, samples).await?;
    let attempts = (samples * STAGES.len() as u64) as f64;
    let mut measures = vec![
        Measure::beside("stage attempts", attempts / taken.as_secs_f64(), bare.per_second),
        Measure::alone("cost of a sample", taken.as_secs_f64() * 1e6 / samples as f64, "µs"),
    ];
    measures.push(asking(arguments, &store).await?);
    if let Some(megabytes) = peak_memory() {
        measures.push(Measure::alone("peak memory", megabytes, "MB"));
    }
    Ok(measures)
}

/// One stage that asks a server which takes a while, beside a bare client at the same concurrency.
async fn asking(arguments: &Arguments, store: &Arc<dyn Store>) -> Result<Measure, Failure> {
    let samples = (20_000.0 * arguments.scale.min(5.0)).ceil() as u64;
    let at_once = usize::from(arguments.concurrency);
    let server = Server::new(SERVER_TAKES)?;
    let bare = server.bare(samples as usize, at_once).await?;
    let handler: Arc<dyn Handler> = Arc::new(server.handler()?);
    let place: JsonPointer = "/answer".parse().map_err(failed)?;
    let handler = Arc::new(IntoSample { handler, pointer: place });
    let pipeline =
        Pipeline::new("asking", numbers(samples)).with_stage(stage(arguments, "ask", handler));
    let taken = through(store, &pipeline, samples).await?;
    Ok(Measure::beside("requests that take 5 ms", samples as f64 / taken.as_secs_f64(), bare))
}

fn stage(arguments: &Arguments, name: &str, handler: Arc<dyn Handler>) -> Stage {
    Stage::new(name, handler).with_concurrency(arguments.concurrency.into())
}

fn numbers(samples: u64) -> Arc<dyn SampleSource> {
    let sample = |n| json!({ "n": n, "prompt": "a few words, as there are in most of them" });
    Arc::new(IteratorSource::new("numbers", move || (0..samples).map(sample)))
}

/// Runs a pipeline over its source; the time it took. Every sample must be through.
async fn through(
    store: &Arc<dyn Store>,
    pipeline: &Pipeline,
    samples: u64,
) -> Result<Duration, Failure> {
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
        None => Err(Failure::new(Exit::Error, "not every sample is through")),
    }
}
