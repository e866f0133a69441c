//! awa: peer-awa plain|failing|sustained JOBS DATABASE_URL [SECONDS]. COPY to submit, and the storage engine that is its default.

use std::{
    env,
    error::Error,
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use awa::{Client, InsertOpts, JobArgs, JobResult, QueueConfig, insert::params_with, migrations};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::postgres::PgPoolOptions;

const QUEUE: &str = "noop";
const SUBMIT_BATCH: u32 = 1_000;
const MAX_WORKERS: u32 = 512;
const CLAIM_BATCH: usize = 512;

#[derive(Serialize, Deserialize, JobArgs)]
struct Noop {
    document: String,
    page: u32,
    n: u32,
}

static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [mode, jobs, url, seconds @ ..] = arguments.as_slice() else {
        return Err("say plain|failing|sustained JOBS DATABASE_URL [SECONDS]".into());
    };
    let (failing, sustained, jobs) = (mode == "failing", mode == "sustained", jobs.parse::<u32>()?);
    let pool = PgPoolOptions::new().max_connections(20).connect(url).await?;
    migrations::run(&pool).await?;

    let start = Instant::now();
    if !sustained {
        submit(&pool, 0..jobs).await?;
    }
    let submitted_s = start.elapsed().as_secs_f64();

    let failed_once: &'static [AtomicBool] =
        (0..jobs).map(|_| AtomicBool::new(false)).collect::<Vec<_>>().leak();
    let queue = QueueConfig {
        max_workers: MAX_WORKERS,
        claim_batch_size: CLAIM_BATCH,
        poll_interval: Duration::from_millis(50),
        deadline_duration: Duration::ZERO,
        ..QueueConfig::default()
    };
    let client = Client::builder(pool.clone())
        .queue(QUEUE, queue)
        .promote_interval(Duration::from_millis(50))
        .register::<Noop, _, _>(move |job: Noop, _| async move {
            ATTEMPTS.fetch_add(1, Relaxed);
            if failing && job.n % 5 == 0 && !failed_once[job.n as usize].swap(true, Relaxed) {
                return Ok(JobResult::RetryAfter(Duration::ZERO));
            }
            DONE.fetch_add(1, Relaxed);
            Ok(JobResult::Completed)
        })
        .build()?;
    let start = Instant::now();
    client.start().await?;
    let by_second = match seconds.first() {
        Some(seconds) => arrive(&pool, jobs, seconds.parse()?).await?,
        None => Vec::new(),
    };
    // Jobs of a long turn are removed while it goes on, so what is left is counted there. Counting takes seconds, which
    // are not those of the work.
    let drained_s = loop {
        let elapsed = start.elapsed().as_secs_f64();
        let all_done = DONE.load(Relaxed) >= jobs;
        if all_done && sustained && open(&pool).await? == 0
            || all_done && completed(&pool).await? >= i64::from(jobs)
        {
            break elapsed;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    let line = json!({
        "version": "0.6.9",
        "settings": format!("{MAX_WORKERS} workers, claims of {CLAIM_BATCH}, 20 connections, retries looked for every 50 ms"),
        "keeps": "the job, until its retention ends",
        "jobs": jobs, "attempts": ATTEMPTS.load(Relaxed),
        "by_second": by_second,
        "submitted_s": if sustained { drained_s } else { submitted_s }, "drained_s": drained_s, "forced_wait_s": 0,
    });
    println!("{line}");
    std::process::exit(0);
}

async fn submit(pool: &sqlx::PgPool, jobs: std::ops::Range<u32>) -> Result<(), Box<dyn Error>> {
    for first in jobs.clone().step_by(SUBMIT_BATCH as usize) {
        let new = |n| {
            let document = "s3://bucket/2026/03/01/part-00017.json".to_owned();
            params_with(
                &Noop { document, page: 17, n },
                InsertOpts { queue: QUEUE.into(), ..InsertOpts::default() },
            )
        };
        let batch: Vec<_> =
            (first..jobs.end.min(first + SUBMIT_BATCH)).map(new).collect::<Result<_, _>>()?;
        awa::insert_many_copy_from_pool(pool, &batch).await?;
    }
    Ok(())
}

/// Submits evenly over a time, and counts what is done in each second until all is done.
async fn arrive(pool: &sqlx::PgPool, jobs: u32, seconds: f64) -> Result<Vec<u32>, Box<dyn Error>> {
    let (start, mut submitted, mut counted, mut by_second) = (Instant::now(), 0, 0, Vec::new());
    while counted < jobs {
        let due = ((start.elapsed().as_secs_f64() / seconds).min(1.0) * f64::from(jobs)) as u32;
        submit(pool, submitted..due).await?;
        submitted = due;
        let done = DONE.load(Relaxed);
        if start.elapsed().as_secs_f64() >= by_second.len() as f64 + 1.0 || done >= jobs {
            by_second.push(done - counted);
            counted = done;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(by_second)
}

async fn open(pool: &sqlx::PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT count(*) FROM awa.jobs WHERE state <> 'completed'")
        .fetch_one(pool)
        .await
}

async fn completed(pool: &sqlx::PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT count(*) FROM awa.jobs WHERE state = 'completed'")
        .fetch_one(pool)
        .await
}
