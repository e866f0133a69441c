//! Insert, claim and finish, Redrive's store beside a bare loop, in turns on one database.

use std::time::{Duration, Instant};

use clap::Args;
use redrive_engine::random_worker_id;
use tokio::task::JoinSet;

use super::{
    Figure,
    contender::{Side, failed},
    place::Place,
    redrive_store::RedriveStore,
    scale,
};
use crate::{context::Context, exit::Failure};

/// The arguments of `bench store`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How much to do, from 0.001 to 100; 1 takes about half a minute
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,

    /// Connections to PostgreSQL, for Redrive and for the bare loop alike; SQLite has one writer
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// Batch sizes, and how many rows each is measured with at scale 1.
const BATCHES: [(usize, f64); 4] =
    [(1, 2_000.0), (32, 16_000.0), (256, 60_000.0), (1_000, 100_000.0)];

/// Redrive and the bare loop take turns this often, so that a slow minute hits both.
const ROUNDS: usize = 5;

/// The time that each operation took, round by round.
#[derive(Debug, Default)]
struct Times {
    insert: Vec<Duration>,
    claim: Vec<Duration>,
    finish: Vec<Duration>,
}

/// The round in the middle: one that stalled says nothing about the others.
fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Measures, and removes what it made.
pub(crate) async fn run(arguments: &Arguments, context: &Context) -> Result<Vec<Figure>, Failure> {
    let place = Place::new(context, arguments.connections).await?;
    place.measured(async |place| measure_at(place, arguments.scale).await).await
}

async fn measure_at(place: &Place, scale: f64) -> Result<Vec<Figure>, Failure> {
    let store = place.store().await?;
    let mut ours: Side = Vec::new();
    for _ in 0..place.users() {
        let worker = random_worker_id().map_err(failed)?;
        ours.push(Box::new(RedriveStore::new(store.clone(), &worker)?));
    }
    measure(scale, ours, place.bare().await?).await
}

async fn measure(scale: f64, mut ours: Side, mut bare: Side) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for (batch, rows) in BATCHES {
        let batches = ((rows * scale / (batch * ROUNDS) as f64).ceil() as usize).max(1);
        let (mut our_times, mut bare_times) = (Times::default(), Times::default());
        for _ in 0..ROUNDS {
            ours = round(ours, batch, batches, &mut our_times).await?;
            bare = round(bare, batch, batches, &mut bare_times).await?;
        }
        let rows = (batch * batches) as f64;
        let rate = |time: Duration| rows / time.as_secs_f64().max(1e-9);
        let pairs = [
            ("insert", median(&mut our_times.insert), median(&mut bare_times.insert)),
            ("claim", median(&mut our_times.claim), median(&mut bare_times.claim)),
            ("finish", median(&mut our_times.finish), median(&mut bare_times.finish)),
        ];
        for (operation, our_time, bare_time) in pairs {
            figures.push(Figure::new(operation, batch, rate(our_time), rate(bare_time)));
        }
    }
    Ok(figures)
}

/// One turn of one side: inserts, claims and finishes the same rows, timing each.
async fn round(
    side: Side,
    batch: usize,
    batches: usize,
    times: &mut Times,
) -> Result<Side, Failure> {
    let start = Instant::now();
    let side = together(side, batches, Operation::Insert, batch).await?;
    times.insert.push(start.elapsed());
    let start = Instant::now();
    let side = together(side, batches, Operation::Claim, batch).await?;
    times.claim.push(start.elapsed());
    let start = Instant::now();
    let side = together(side, batches, Operation::Finish, batch).await?;
    times.finish.push(start.elapsed());
    Ok(side)
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Insert,
    Claim,
    Finish,
}

/// Shares batches between the contenders of a side and runs them at once.
async fn together(
    side: Side,
    batches: usize,
    operation: Operation,
    batch: usize,
) -> Result<Side, Failure> {
    let contenders = side.len().max(1);
    let mut tasks = JoinSet::new();
    for (index, mut contender) in side.into_iter().enumerate() {
        let share = batches / contenders + usize::from(index < batches % contenders);
        tasks.spawn(async move {
            for _ in 0..share {
                match operation {
                    Operation::Insert => contender.insert(batch).await?,
                    Operation::Claim => contender.claim(batch).await.map(drop)?,
                    Operation::Finish => contender.finish(batch).await.map(drop)?,
                }
            }
            Ok::<_, Failure>((index, contender))
        });
    }
    let mut side = Vec::new();
    while let Some(done) = tasks.join_next().await {
        side.push(done.map_err(failed)??);
    }
    side.sort_by_key(|(index, _)| *index);
    Ok(side.into_iter().map(|(_, contender)| contender).collect())
}
