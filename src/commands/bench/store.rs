//! Insert, claim and finish, Redrive's store beside a bare loop, in turns on one database.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use redrive::{StoreUrl, config, migrator, open_store};
use redrive_engine::{Clock, SystemClock, random_worker_id};
use redrive_postgres::{PostgresOptions, PostgresStore};
use redrive_store::Store;
use tokio::task::JoinSet;

use super::{
    Figure,
    contender::{Contender, failed},
    postgres_loop::PostgresLoop,
    redrive_store::RedriveStore,
    sqlite_loop::SqliteLoop,
};
use crate::{
    context::Context,
    exit::{Exit, Failure},
};

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

fn scale(text: &str) -> Result<f64, String> {
    let allowed = || "write a number from 0.001 to 100".to_owned();
    let scale: f64 = text.parse().map_err(|_| allowed())?;
    if (0.001..=100.0).contains(&scale) { Ok(scale) } else { Err(allowed()) }
}

/// Batch sizes, and how many rows each is measured with at scale 1.
const BATCHES: [(usize, f64); 4] =
    [(1, 2_000.0), (32, 16_000.0), (256, 60_000.0), (1_000, 100_000.0)];

/// Redrive and the bare loop take turns this often, so that a slow minute hits both.
const ROUNDS: usize = 4;

/// The time that each operation took.
#[derive(Debug, Default, Clone, Copy)]
struct Times {
    insert: Duration,
    claim: Duration,
    finish: Duration,
}

/// A side of the comparison: one contender per connection.
type Side = Vec<Box<dyn Contender>>;

/// Measures, and removes what it made.
pub(crate) async fn run(arguments: &Arguments, context: &Context) -> Result<Vec<Figure>, Failure> {
    let given = context.store_flag()?;
    match given.map(|store| store.url) {
        None => {
            let folder =
                tempfile::Builder::new().prefix("redrive-bench-").tempdir_in(".").map_err(
                    |error| Failure::new(Exit::Error, "cannot make a folder here").because(error),
                )?;
            measure_sqlite(arguments, folder.path().join("bench.db")).await
        }
        Some(StoreUrl::SqliteFile(path)) => {
            if path.exists() {
                return Err(refused(&path.display().to_string()));
            }
            let figures = measure_sqlite(arguments, path.clone()).await;
            remove_sqlite(&path);
            figures
        }
        Some(StoreUrl::SqliteMemory) => Err(Failure::usage(
            "a database in memory has one connection, and the bare loop needs its own",
        )),
        Some(url @ StoreUrl::Postgres(_)) => measure_postgres(arguments, &url).await,
    }
}

fn refused(store: &str) -> Failure {
    Failure::new(
        Exit::Refused,
        format!("{store} is in use; a measurement needs a store of its own"),
    )
    .help("name a new file, or a database that has nothing of Redrive's")
}

async fn measure_sqlite(arguments: &Arguments, path: PathBuf) -> Result<Vec<Figure>, Failure> {
    let url = StoreUrl::SqliteFile(path.clone());
    let store =
        open_store(&url, &config::Store::default(), SystemClock.now()).await.map_err(failed)?;
    let worker = random_worker_id().map_err(failed)?;
    let ours: Side = vec![Box::new(RedriveStore::new(store, &worker)?)];
    let bare: Side = vec![Box::new(SqliteLoop::open(&path)?)];
    measure(arguments.scale, ours, bare).await
}

/// The log and its index go with the last connection, but not if that failed.
fn remove_sqlite(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // What is not there need not be removed.
        _ = std::fs::remove_file(name);
    }
}

async fn measure_postgres(arguments: &Arguments, url: &StoreUrl) -> Result<Vec<Figure>, Failure> {
    let migrator = migrator(url).map_err(failed)?;
    if migrator.status().await.map_err(failed)?.current() != 0 {
        return Err(refused(&url.to_string()));
    }
    migrator.migrate_to(migrator.latest(), SystemClock.now()).await.map_err(failed)?;
    let figures = measure_migrated_postgres(arguments, url).await;
    migrator.migrate_to(0, SystemClock.now()).await.map_err(failed)?;
    figures
}

async fn measure_migrated_postgres(
    arguments: &Arguments,
    url: &StoreUrl,
) -> Result<Vec<Figure>, Failure> {
    let StoreUrl::Postgres(postgres) = url else { return Err(refused(&url.to_string())) };
    let options = PostgresOptions {
        max_connections: arguments.connections.into(),
        ..PostgresOptions::default()
    };
    let store: Arc<dyn Store> =
        Arc::new(PostgresStore::connect(postgres.with_password(), options).await.map_err(failed)?);
    let (mut ours, mut bare): (Side, Side) = (Vec::new(), Vec::new());
    for _ in 0..arguments.connections {
        let worker = random_worker_id().map_err(failed)?;
        ours.push(Box::new(RedriveStore::new(store.clone(), &worker)?));
        bare.push(Box::new(PostgresLoop::connect(postgres.with_password()).await?));
    }
    measure(arguments.scale, ours, bare).await
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
        let rows = (batch * batches * ROUNDS) as f64;
        let rate = |time: Duration| rows / time.as_secs_f64().max(1e-9);
        let pairs = [
            ("insert", our_times.insert, bare_times.insert),
            ("claim", our_times.claim, bare_times.claim),
            ("finish", our_times.finish, bare_times.finish),
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
    times.insert += start.elapsed();
    let start = Instant::now();
    let side = together(side, batches, Operation::Claim, batch).await?;
    times.claim += start.elapsed();
    let start = Instant::now();
    let side = together(side, batches, Operation::Finish, batch).await?;
    times.finish += start.elapsed();
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
