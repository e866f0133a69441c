//! apalis: peer-apalis plain|failing JOBS PLACE. A database URL is PostgreSQL, a folder SQLite with WAL and full sync.

use std::{
    env,
    error::Error,
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use apalis::prelude::*;
use apalis_postgres::PostgresStorage;
use apalis_sqlite::SqliteStorage;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{
    postgres::PgPoolOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

const QUEUE: &str = "noop";
const BATCH: usize = 1_000;
const POLL: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Noop {
    document: String,
    page: u32,
    n: u32,
}

static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);
/// Who failed already; empty where nobody is to fail.
static FAILED_ONCE: OnceLock<Vec<AtomicBool>> = OnceLock::new();

async fn handle(job: Noop) -> Result<(), BoxDynError> {
    ATTEMPTS.fetch_add(1, Relaxed);
    let failed_once = FAILED_ONCE.get().and_then(|all| all.get(job.n as usize));
    if job.n % 5 == 0 && failed_once.is_some_and(|failed| !failed.swap(true, Relaxed)) {
        return Err("the first try of one in five".into());
    }
    DONE.fetch_add(1, Relaxed);
    Ok(())
}

fn batches(jobs: u32) -> impl Iterator<Item = Vec<Noop>> {
    let new =
        |n| Noop { document: "s3://bucket/2026/03/01/part-00017.json".to_owned(), page: 17, n };
    (0..jobs)
        .step_by(BATCH)
        .map(move |first| (first..jobs.min(first + BATCH as u32)).map(new).collect())
}

/// Submits and drains by a backend, whichever it is; how long each took.
macro_rules! measured {
    ($backend:expr, $jobs:expr, $done:expr) => {{
        let mut backend = $backend;
        let start = Instant::now();
        for batch in batches($jobs) {
            let tasks = batch.into_iter().map(|job| TaskBuilder::new(job).max_attempts(3).build());
            backend.push_all(&mut futures::stream::iter(tasks)).await?;
        }
        let submitted_s = start.elapsed().as_secs_f64();
        let backend = backend.poll_with_strategy(Strategy::new().interval(POLL));
        let worker = WorkerBuilder::new("noop").backend(backend).concurrency(BATCH).build(handle);
        let start = Instant::now();
        tokio::spawn(async move { worker.run().await });
        while DONE.load(Relaxed) < $jobs || $done.await? < i64::from($jobs) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        (submitted_s, start.elapsed().as_secs_f64())
    }};
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [mode, jobs, place] = arguments.as_slice() else {
        return Err("say plain|failing JOBS PLACE".into());
    };
    let jobs: u32 = jobs.parse()?;
    FAILED_ONCE.get_or_init(|| {
        let count = if mode == "failing" { jobs } else { 0 };
        (0..count).map(|_| AtomicBool::new(false)).collect()
    });
    let (submitted_s, drained_s) = if place.contains("://") {
        on_postgres(place, jobs).await?
    } else {
        on_sqlite(place.as_ref(), jobs).await?
    };
    let line = json!({
        "version": "1.0.0",
        "settings": format!("fetches and ends of up to {BATCH}, looks for jobs every {} ms", POLL.as_millis()),
        "keeps": "the job and its last result",
        "jobs": jobs, "attempts": ATTEMPTS.load(Relaxed),
        "submitted_s": submitted_s, "drained_s": drained_s, "forced_wait_s": 0,
    });
    println!("{line}");
    std::process::exit(0);
}

async fn on_postgres(url: &str, jobs: u32) -> Result<(f64, f64), Box<dyn Error>> {
    let pool = PgPoolOptions::new().max_connections(10).connect(url).await?;
    PostgresStorage::setup(&pool).await?;
    let config =
        apalis_postgres::Config::default().queue(QUEUE).batch_size(BATCH).lock_tasks(false);
    let backend = PostgresStorage::<Noop>::new(&pool).with_config(config);
    let done = "SELECT count(*) FROM apalis.jobs WHERE status = 'Done'";
    Ok(measured!(backend, jobs, sqlx::query_scalar::<_, i64>(done).fetch_one(&pool)))
}

async fn on_sqlite(folder: &Path, jobs: u32) -> Result<(f64, f64), Box<dyn Error>> {
    let options = SqliteConnectOptions::new()
        .filename(folder.join("apalis.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(30));
    let pool = SqlitePoolOptions::new().connect_with(options).await?;
    SqliteStorage::setup(&pool).await?;
    let config = apalis_sqlite::Config::default().queue(QUEUE).batch_size(BATCH);
    let backend = SqliteStorage::<Noop>::new(&pool).with_config(config);
    let done = "SELECT count(*) FROM Jobs WHERE status = 'Done'";
    Ok(measured!(backend, jobs, sqlx::query_scalar::<_, i64>(done).fetch_one(&pool)))
}
