//! Partitions: asked for, looked at, retried and extracted, beside bare loops.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use jiff::civil::date;
use redrive::{
    Failure as UnitFailure, LogicalDate, Operator, PartitionKey, PartitionStatus, RawSink,
    RowWriter, Source, Stopper, Until, extractor_fn,
};
use redrive_engine::{Engine, Outcome};
use redrive_store::{
    Lane, NamedPartition, PartitionClaim, PartitionFilter, PartitionFinish, PartitionOrder,
    PartitionVerdict, PartitionWish, Store, WorkerId,
};

use super::{
    contender::{at, failed},
    partition_loop::{Days, PartitionLoop},
    place::Place,
    plain_files::write_plainly,
    runs::{Measure, peak_memory},
    scale,
};
use crate::{context::Context, exit::Failure};

/// The arguments of `bench partitions`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How much to do, from 0.001 to 100; 1 is a million partitions, 100 000 of them timed
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,

    /// Partitions extracted at once, by Redrive and by the plain program alike
    #[arg(long, default_value = "16", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    concurrency: u16,

    /// Connections to PostgreSQL
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// Partitions asked for, judged or retried at a time.
const BATCH: usize = 1_000;

/// Redrive and the bare loop take turns this often, so that a slow minute hits both.
const ROUNDS: usize = 5;

/// Rows of a small partition.
const ROWS: usize = 100;

/// Measures, and removes what it made.
pub(crate) async fn run(arguments: &Arguments, context: &Context) -> Result<Vec<Measure>, Failure> {
    let place = Place::new(context, arguments.connections).await?;
    place.measured(async |place| measure(arguments, place).await).await
}

async fn measure(arguments: &Arguments, place: &Place) -> Result<Vec<Measure>, Failure> {
    let store = place.store().await?;
    let many = |at_one: f64| ((at_one * arguments.scale).ceil() as usize).max(ROUNDS);
    let (backfilled, bare) = backfill(&store, place, many(100_000.0)).await?;
    let mut measures = vec![Measure::beside("partitions backfilled", backfilled, bare)];

    fill(&store, many(900_000.0), many(10_000.0)).await?;
    measures.push(Measure::alone("first page of all", first_page(&store).await?, "ms"));
    measures.push(Measure::alone("all failed ones retried", tick(&store).await?, "s"));

    let folder = tempfile::Builder::new().prefix("redrive-bench-").tempdir_in(".");
    let folder = folder.map_err(failed)?;
    let (count, at_once) = (many(10_000.0), usize::from(arguments.concurrency));
    let plain = write_plainly(&folder.path().join("plain"), count, at_once, &rows()).await?;
    let extracted = extract(&store, &folder.path().join("raw"), count, at_once).await?;
    measures.push(Measure::beside("partitions extracted and judged", extracted, plain));
    if let Some(megabytes) = peak_memory() {
        measures.push(Measure::alone("peak memory", megabytes, "MB"));
    }
    Ok(measures)
}

/// Partitions asked for per second, by Redrive and by a bare loop.
async fn backfill(
    store: &Arc<dyn Store>,
    place: &Place,
    count: usize,
) -> Result<(f64, f64), Failure> {
    let bare = PartitionLoop::open(place.url()).await?;
    let (mut our_times, mut bare_times) = (Vec::new(), Vec::new());
    let share = count.div_ceil(ROUNDS);
    for round in 0..ROUNDS {
        let days: Vec<_> = (round * share..(round + 1) * share).map(day).collect();
        let start = Instant::now();
        for batch in days.chunks(BATCH) {
            ask(store, "bench", batch).await?;
        }
        our_times.push(start.elapsed());
        let start = Instant::now();
        for batch in days.chunks(BATCH) {
            bare.insert(batch).await?;
        }
        bare_times.push(start.elapsed());
    }
    let rate = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        let median = times.get(ROUNDS / 2).copied().unwrap_or_default();
        share as f64 / median.as_secs_f64().max(1e-9)
    };
    Ok((rate(&mut our_times), rate(&mut bare_times)))
}

/// The n-th of many days of many customers.
fn day(n: usize) -> (String, LogicalDate) {
    const YEAR: usize = 365;
    let first = date(2020, 1, 1);
    let day = jiff::Span::new().try_days((n % YEAR) as i64).ok();
    let day = day.and_then(|days| first.checked_add(days).ok()).unwrap_or(first);
    (format!("customer-{:06}", n / YEAR), day.try_into().unwrap_or(LogicalDate::MIN))
}

fn order() -> PartitionOrder {
    let by = Operator { actor: "bench".to_owned(), at: at(0), reason: None };
    PartitionOrder { by, command: "bench".to_owned(), filter: None, flags: Vec::new() }
}

async fn ask(store: &Arc<dyn Store>, source: &str, days: &Days) -> Result<(), Failure> {
    let key = |(customer, day): &(String, LogicalDate)| {
        PartitionKey::new(source, customer, "daily", *day).map(NamedPartition::from)
    };
    let named: Vec<_> = days.iter().map(key).collect::<Result<_, _>>().map_err(failed)?;
    let wish = PartitionWish::Backfill { force_pending: false, lane: Lane::Backfill };
    store.change_partitions(&wish, &named, &order()).await.map(drop).map_err(failed)
}

/// Makes partitions, and some that failed among them.
async fn fill(store: &Arc<dyn Store>, count: usize, bad: usize) -> Result<(), Failure> {
    for (source, count) in [("crowd", count.saturating_sub(bad)), ("failing", bad)] {
        for from in (0..count).step_by(BATCH) {
            let days: Vec<_> = (from..(from + BATCH).min(count)).map(day).collect();
            ask(store, source, &days).await?;
        }
    }
    let worker = WorkerId("bench".to_owned());
    for batch in 0.. {
        let ids = (0..BATCH).map(|n| format!("{batch:08}-{n:04}").parse());
        let claim = PartitionClaim {
            source: "failing".to_owned(),
            run_ids: ids.collect::<Result<_, _>>().map_err(failed)?,
            backfill: 0,
            owner: worker.clone(),
            lease_until: store.now() + Duration::from_secs(3_600),
        };
        let claimed = store.claim_partitions(&claim).await.map_err(failed)?;
        if claimed.is_empty() {
            return Ok(());
        }
        let finish = |claimed: &redrive_store::ClaimedPartition| PartitionFinish {
            key: claimed.key.clone(),
            lease: claimed.lease,
            run_id: claimed.run_id.clone(),
            started_at: at(1),
            ended_at: at(2),
            worker: worker.clone(),
            verdict: PartitionVerdict::Rejected { failure: UnitFailure::exit(75, "no data yet") },
        };
        let finishes: Vec<_> = claimed.iter().map(finish).collect();
        store.finish_partitions(&finishes).await.map_err(failed)?;
    }
    Ok(())
}

/// Milliseconds until there is a page, the best of a few: the first waits for the disk.
async fn first_page(store: &Arc<dyn Store>) -> Result<f64, Failure> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let all = PartitionFilter::default();
        store.partitions_page(&all, None, 100).await.map_err(failed)?;
        best = best.min(start.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(best)
}

/// Seconds to find everything that failed, page by page, and to retry it.
async fn tick(store: &Arc<dyn Store>) -> Result<f64, Failure> {
    let start = Instant::now();
    let failing =
        PartitionFilter { status: Some(PartitionStatus::Failed), ..PartitionFilter::default() };
    let mut after = None;
    loop {
        let page = store.partitions_page(&failing, after.as_ref(), BATCH as u32).await;
        let page = page.map_err(failed)?;
        let Some(last) = page.last() else { return Ok(start.elapsed().as_secs_f64()) };
        after = Some(last.key.clone());
        let named: Vec<_> = page.iter().map(NamedPartition::from).collect();
        let wish = PartitionWish::Retry { clear_terminal: false, lane: Lane::Fresh };
        store.change_partitions(&wish, &named, &order()).await.map_err(failed)?;
    }
}

/// The rows of a small partition, as lines.
fn rows() -> Vec<u8> {
    let row =
        |n| format!("{{\"n\": {n}, \"campaign\": \"spring\", \"clicks\": 17}}\n").into_bytes();
    (0..ROWS).flat_map(row).collect()
}

/// Partitions extracted in this process, judged and authorised per second.
async fn extract(
    store: &Arc<dyn Store>,
    folder: &Path,
    count: usize,
    at_once: usize,
) -> Result<f64, Failure> {
    for from in (0..count).step_by(BATCH) {
        let days: Vec<_> = (from..(from + BATCH).min(count)).map(day).collect();
        ask(store, "small", &days).await?;
    }
    let lines: Arc<[u8]> = rows().into();
    let extractor = extractor_fn(move |_, rows: RowWriter| {
        let lines = lines.clone();
        async move {
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                if let Err(failure) = rows.write(line).await {
                    return Outcome::Failed(failure);
                }
            }
            Outcome::Answered { value: None, verdict: None }
        }
    });
    let source = Source::new("small", extractor, RawSink::folder(folder)).with_concurrency(at_once);
    let engine = Engine::new(store.clone()).with_source(source);
    let (_stopper, stop) = Stopper::new();
    let start = Instant::now();
    engine.run(stop, Until::Drained).await.map_err(failed)?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
