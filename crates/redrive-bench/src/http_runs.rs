//! Runs that a server handles over HTTP, compared with a bare client.

use std::{sync::Arc, time::Duration};

use redrive_engine::Handler;
use redrive_store::Store;

use crate::{
    bench_store::BenchStore,
    error::BenchError,
    measurement::Measurement,
    reply_server::ReplyServer,
    runs::{RunsBenchArgs, bare_drain, drain},
    usage::{Stopwatch, Usage},
};

/// Those that are compared take this many turns, so that a slow minute affects all of them.
const ROUNDS: usize = 3;

const MAX_AT_ONCE: u16 = 64;

/// A worker sends requests and writes a ledger, on the same cores as the server. So the worker is also compared with
/// the sum of the bare client and the bare store, one after the other, in time and in processor time. A worker that
/// needs no more than both, and never waits, is slower than the bare client by the time of the store. A worker can
/// only be faster with a cheaper client.
pub(crate) async fn measure(
    args: &RunsBenchArgs,
    bench_store: &BenchStore,
    store: &Arc<dyn Store>,
) -> Result<Vec<Measurement>, BenchError> {
    let count = (50_000.0 * args.scale).ceil() as usize;
    let args = args.with_max_concurrency(MAX_AT_ONCE);
    let concurrency = args.concurrency.into();
    let (mut bare, mut ours, mut stored) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let server = ReplyServer::new(Duration::ZERO)?;
        bare.push(bare_requests(&server, count, concurrency).await?);
        ours.push(requests(&args, store, &server, count).await?);
        stored.push(bare_drain(bench_store, count).await?.1);
    }
    let [bare, ours, stored] = [bare, ours, stored].map(|all| Usage::median(&all));
    let both = 1.0 / (1.0 / bare.per_second + 1.0 / stored.per_second);
    let mut measurements = vec![
        Measurement::rate("requests", ours.per_second, bare.per_second),
        Measurement::rate("requests, bare store included", ours.per_second, both),
    ];
    let server = ReplyServer::new(Duration::from_millis(5))?;
    let slow = bare_requests(&server, count, concurrency).await?;
    let ours_slow = requests(&args, store, &server, count).await?;
    measurements.push(Measurement::rate(
        "requests that take 5 ms",
        ours_slow.per_second,
        slow.per_second,
    ));
    measurements.push(Measurement::microseconds(
        "processor time of a request",
        ours.cpu_micros,
        bare.cpu_micros,
    ));
    // The processor time of a PostgreSQL server is spent in other processes.
    if bench_store.url().is_sqlite() {
        let needed = bare.cpu_micros + stored.cpu_micros;
        measurements.push(Measurement::microseconds(
            "the same, bare store included",
            ours.cpu_micros,
            needed,
        ));
        let most = bare.cpu_micros / needed;
        measurements.push(Measurement::alone("the most, with all processors busy", most, "ratio"));
    }
    Ok(measurements)
}

async fn bare_requests(
    server: &ReplyServer,
    count: usize,
    concurrency: usize,
) -> Result<Usage, BenchError> {
    let stopwatch = Stopwatch::start();
    server.bare_rate(count, concurrency).await?;
    Ok(stopwatch.usage_for(count))
}

async fn requests(
    args: &RunsBenchArgs,
    store: &Arc<dyn Store>,
    server: &ReplyServer,
    count: usize,
) -> Result<Usage, BenchError> {
    let handler: Arc<dyn Handler> = Arc::new(server.handler()?);
    Ok(drain(args.concurrency, store, handler, count).await?.1)
}
