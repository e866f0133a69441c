//! Retrying in a process: peer-retry NAME success CALLS PLACE. Everybody calls the same operation, which succeeds at
//! once, on one thread: what is left is what the possibility of a retry costs a call. Calls are timed in chunks so short
//! that few are interrupted, and the median of the chunks stands for all.

use std::{
    env,
    error::Error,
    hint::black_box,
    time::{Duration, Instant},
};

use backon::{ExponentialBuilder, Retryable};
use redrive_core::{Failure, Preset};
use serde_json::json;
use tokio_retry2::{Retry, RetryError, strategy::ExponentialBackoff};

/// Calls between two looks at the clock.
const CHUNK: u32 = 10_000;

const SETTINGS: &str =
    "3 attempts, exponential waits from 1 s to 30 s; made once, used by every call";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [name, mode, calls, _place] = arguments.as_slice() else {
        return Err("say NAME success CALLS PLACE".into());
    };
    if mode != "success" {
        return Err(format!("there is no mode {mode}").into());
    }
    let calls: u32 = calls.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut chunk_times = Vec::new();
    let mut version = "";
    for _ in 0..calls.div_ceil(CHUNK) {
        let start = Instant::now();
        let (of, succeeded) = runtime.block_on(async {
            match name.as_str() {
                "redrive" => Ok(("0.1.0", by_redrive(CHUNK).await)),
                "backon" => Ok(("1.6.0", by_backon(CHUNK).await)),
                "tokio-retry2" => Ok(("0.9.1", by_tokio_retry2(CHUNK).await)),
                "by-hand" => Ok(("", by_hand(CHUNK).await)),
                other => Err(format!("there is no {other}")),
            }
        })?;
        chunk_times.push(start.elapsed());
        version = of;
        if succeeded != CHUNK {
            return Err(format!("{succeeded} of {CHUNK} calls succeeded").into());
        }
    }
    chunk_times.sort_unstable();
    let calls = CHUNK * chunk_times.len() as u32;
    let took_s = chunk_times[chunk_times.len() / 2].as_secs_f64() * chunk_times.len() as f64;
    let line = json!({
        "version": version, "settings": SETTINGS, "keeps": "nothing", "jobs": calls, "attempts": calls,
        "submitted_s": 0, "drained_s": took_s, "forced_wait_s": 0,
    });
    println!("{line}");
    Ok(())
}

/// Succeeds, which the compiler must not know.
async fn operation(number: u32) -> Result<u32, Failure> {
    if black_box(true) { Ok(black_box(number)) } else { Err(Failure::http(503, None, "busy")) }
}

async fn by_redrive(calls: u32) -> u32 {
    let policy = Preset::Stage.policy();
    let mut succeeded = 0;
    for number in 0..calls {
        let answer = redrive_retry::retry(black_box(&policy), || operation(number)).await;
        succeeded += u32::from(answer.is_ok());
    }
    succeeded
}

async fn by_backon(calls: u32) -> u32 {
    let backoff = ExponentialBuilder::default()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(30))
        .with_max_times(2);
    let mut succeeded = 0;
    for number in 0..calls {
        let answer = (|| operation(number)).retry(*black_box(&backoff)).await;
        succeeded += u32::from(answer.is_ok());
    }
    succeeded
}

async fn by_tokio_retry2(calls: u32) -> u32 {
    let waits = ExponentialBackoff::from_millis(2).factor(500).max_delay(Duration::from_secs(30));
    let mut succeeded = 0;
    for number in 0..calls {
        let attempt = || async move { operation(number).await.map_err(RetryError::transient) };
        let answer = Retry::spawn(black_box(&waits).clone().take(2), attempt).await;
        succeeded += u32::from(answer.is_ok());
    }
    succeeded
}

/// What one would write without any of them.
async fn by_hand(calls: u32) -> u32 {
    let (attempts, base, cap) = (3, Duration::from_secs(1), Duration::from_secs(30));
    let mut succeeded = 0;
    for number in 0..calls {
        let mut attempt = 0;
        let answer = loop {
            attempt += 1;
            match operation(number).await {
                Err(_) if attempt < black_box(attempts) => {
                    tokio::time::sleep(
                        base.saturating_mul(2_u32.saturating_pow(attempt - 1)).min(cap),
                    )
                    .await;
                }
                ended => break ended,
            }
        };
        succeeded += u32::from(answer.is_ok());
    }
    succeeded
}
