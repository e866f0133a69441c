//! Partitions: requested, listed, retried and extracted, compared with bare loops.

use std::{
    hint::black_box,
    ops::Range,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use jiff::{ToSpan, civil::date};
use redrive::{
    Control, Daemon, Failure, KeyGrid, LogicalDate, Operator, PartitionCommand, PartitionRules,
    PartitionSelection, RawSink, RowWriter, RunMode, Source, Stopper, StoreUrl, Until,
    extractor_fn,
};
use redrive_core::DateRange;
use redrive_engine::{Engine, Outcome};
use redrive_ops::{Ops, Resource, views::PartitionView};
use redrive_store::{
    AuditContext, GateRules, Lane, PageLimit, PartitionAction, PartitionClaim, PartitionFinish,
    PartitionVerdict, Selection, Store, WorkerId,
};

use crate::{
    bench_store::{BenchStore, working_folder},
    error::{BenchError, failed},
    measurement::Measurement,
    partition_files::write_partition_files,
    partition_loop::PartitionLoop,
    run_backend::at,
    sizes::scale,
    usage::{median_time, peak_memory, reset_peak_memory},
};

#[derive(Debug, Args)]
pub(crate) struct PartitionsBenchArgs {
    /// Amount of work, from 0.001 to 100; 1 is a million partitions, 100 000 of them timed
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,

    /// Partitions extracted at once, by Redrive and by the bare program
    #[arg(long, default_value = "16", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    concurrency: u16,

    /// Connections to PostgreSQL; the default is that of a store
    #[arg(long, default_value = "10", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// Partitions that the bare loop requests, and that `finish_all` finishes, at a time.
const BATCH: usize = 1_000;

/// Partitions on a page of `state inspect`.
const PAGE: u32 = 100;

/// Redrive and the bare loop take this many turns, so that a slow minute affects both.
const ROUNDS: usize = 5;

/// The source whose partitions have [`ROWS`] rows.
pub(crate) const SMALL: &str = "small";

const ROWS: usize = 100;

pub(crate) async fn run(
    args: &PartitionsBenchArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Measurement>, BenchError> {
    let bench_store = BenchStore::create(store_url, args.connections).await?;
    bench_store.measure(async |bench_store| measure(args, bench_store).await).await
}

async fn measure(
    args: &PartitionsBenchArgs,
    bench_store: &BenchStore,
) -> Result<Vec<Measurement>, BenchError> {
    let folder = working_folder()?;
    let raw = RawSink::folder(folder.path().join("raw"));
    let control = Control::new(bench_store.open().await?, PartitionRules::default(), raw.clone());
    let many = |at_one: f64| ((at_one * args.scale).ceil() as usize).max(ROUNDS);
    let (some, all) = (many(100_000.0), many(1_000_000.0));
    fill(&control, 0..some).await?;
    let few = tick(&control).await?;
    let (backfilled, bare) = backfill(&control, bench_store, many(100_000.0)).await?;
    let mut measurements = vec![Measurement::rate("partitions backfilled", backfilled, bare)];

    fill(&control, some..all).await?;
    let page = first_page_time(&control).await?;
    measurements.push(Measurement::alone("first page of state inspect", page, "ms"));
    let many_more = tick(&control).await?;
    for (time, memory, tick) in [
        ("tick of the daemon, a tenth", "memory of that tick", few),
        ("tick of the daemon, all", "memory of this tick", many_more),
    ] {
        measurements.push(Measurement::alone(time, tick.seconds, "s"));
        measurements.extend(tick.megabytes.map(|peak| Measurement::alone(memory, peak, "MB")));
    }

    let (count, concurrency) = (many(10_000.0), usize::from(args.concurrency));
    let (extracted, plain) = extract_all(&control, raw, folder.path(), count, concurrency).await?;
    measurements.push(Measurement::rate("partitions extracted and judged", extracted, plain));
    measurements.extend(peak_memory().map(|peak| Measurement::alone("peak memory", peak, "MB")));
    Ok(measurements)
}

/// Partitions requested per second, by the control plane and by a bare loop.
async fn backfill(
    control: &Control,
    bench_store: &BenchStore,
    count: usize,
) -> Result<(f64, f64), BenchError> {
    let bare = PartitionLoop::open(bench_store.url()).await?;
    let (mut our_times, mut bare_times) = (Vec::new(), Vec::new());
    let share = count.div_ceil(ROUNDS);
    for round in 0..ROUNDS {
        let grid = grid("bench", round * share, share)?;
        let days: Vec<_> =
            grid.keys().map(|key| (key.customer_id().to_owned(), key.logical_date())).collect();
        let start = Instant::now();
        request(control, grid).await?;
        our_times.push(start.elapsed());
        let start = Instant::now();
        for batch in days.chunks(BATCH) {
            bare.insert(batch).await?;
        }
        bare_times.push(start.elapsed());
    }
    let rate = |times: Vec<Duration>| share as f64 / median_time(times).as_secs_f64().max(1e-9);
    Ok((rate(our_times), rate(bare_times)))
}

/// About `count` keys of a source, starting at the key with number `from`: a hundred days of each customer.
pub(crate) fn grid(source: &str, from: usize, count: usize) -> Result<KeyGrid, BenchError> {
    const DAYS: usize = 100;
    let days = count.clamp(1, DAYS);
    let first = date(2020, 1, 1);
    let last = first.checked_add((days as i64 - 1).days()).map_err(failed)?;
    let (first, last) = (LogicalDate::try_from(first), LogicalDate::try_from(last));
    let range = DateRange::new(first.map_err(failed)?, last.map_err(failed)?).map_err(failed)?;
    let customers = from.div_ceil(days)..(from + count).div_ceil(days);
    let customers: Vec<String> = customers.map(|n| format!("customer-{n:06}")).collect();
    KeyGrid::new(source, &customers, &["daily".to_owned()], range).map_err(failed)
}

fn audit_context() -> AuditContext {
    let by = Operator { actor: "bench".to_owned(), at: at(0), reason: None };
    AuditContext { by, command: "bench".to_owned(), filter: None, flags: Vec::new() }
}

/// Requests partitions as `state backfill` does.
pub(crate) async fn request(control: &Control, grid: KeyGrid) -> Result<(), BenchError> {
    let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Backfill };
    let command = PartitionCommand::new(action, audit_context());
    let selection = PartitionSelection::Grid(grid);
    let mut sweep = control.sweep(&command, &selection, RunMode::Real);
    while sweep.next().await.map_err(failed)?.is_some() {}
    Ok(())
}

/// Creates the partitions with numbers in `range`; one in a hundred of all partitions has failed then.
async fn fill(control: &Control, range: Range<usize>) -> Result<(), BenchError> {
    let Range { start, end } = range;
    let bad = |count: usize| count.div_ceil(100);
    for (source, from, to) in
        [("crowd", start - bad(start), end - bad(end)), ("failing", bad(start), bad(end))]
    {
        request(control, grid(source, from, to - from)?).await?;
    }
    let verdict = PartitionVerdict::Rejected { failure: Failure::exit(75, "no data yet") };
    finish_all(control.store(), "failing", &format!("{start:08}"), &verdict).await
}

/// Finishes every requested partition of a source with the same verdict. `run_ids` is the prefix of the run ids.
pub(crate) async fn finish_all(
    store: &Arc<dyn Store>,
    source: &str,
    run_ids: &str,
    verdict: &PartitionVerdict,
) -> Result<(), BenchError> {
    let worker = WorkerId("bench".to_owned());
    for batch in 0.. {
        let ids = (0..BATCH).map(|n| format!("{run_ids}-{batch:08}-{n:04}").parse());
        let claim = PartitionClaim {
            gates: GateRules::default(),
            now: jiff::Timestamp::UNIX_EPOCH,
            source: source.to_owned(),
            run_ids: ids.collect::<Result<_, _>>().map_err(failed)?,
            backfill: redrive_store::BackfillShare::default(),
            owner: worker.clone(),
            lease_until: store.now() + Duration::from_secs(3_600),
        };
        let claimed = store.claim_partitions(&claim).await.map_err(failed)?;
        if claimed.is_empty() {
            return Ok(());
        }
        let finish = |claimed: &redrive_store::ClaimedPartition| PartitionFinish {
            gates: None,
            key: claimed.key.clone(),
            lease: claimed.lease,
            attempt: claimed.attempt,
            run_id: claimed.run_id.clone(),
            started_at: at(1),
            ended_at: at(2),
            worker: worker.clone(),
            verdict: verdict.clone(),
        };
        let finishes: Vec<_> = claimed.iter().map(finish).collect();
        store.finish_partitions(&finishes).await.map_err(failed)?;
    }
    Ok(())
}

/// Milliseconds for a page of `state inspect`, the best of a few: the first page waits for the disk.
async fn first_page_time(control: &Control) -> Result<f64, BenchError> {
    let (store, raw) = (control.store().clone(), control.raw().clone());
    let ops = Ops::new(store, None, PartitionRules::default(), raw);
    let (all, limit) = (Selection::default(), PageLimit::without_data(PAGE));
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        black_box(PartitionView::page(&ops, &all, None, limit).await.map_err(failed)?);
        best = best.min(start.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(best)
}

struct TickUsage {
    seconds: f64,
    /// The peak memory of the process during the tick.
    megabytes: Option<f64>,
}

/// Runs a tick of the daemon, which finds and retries all failed partitions.
async fn tick(control: &Control) -> Result<TickUsage, BenchError> {
    let daemon = Daemon::new(control.clone(), "bench");
    reset_peak_memory();
    let start = Instant::now();
    daemon.tick().await.map_err(failed)?;
    Ok(TickUsage { seconds: start.elapsed().as_secs_f64(), megabytes: peak_memory() })
}

/// The rows of a small partition as JSON lines.
fn rows() -> Vec<u8> {
    let row =
        |n| format!("{{\"n\": {n}, \"campaign\": \"spring\", \"clicks\": 17}}\n").into_bytes();
    (0..ROWS).flat_map(row).collect()
}

/// Partitions extracted per second by Redrive, and written by the bare program.
async fn extract_all(
    control: &Control,
    raw: RawSink,
    folder: &Path,
    count: usize,
    concurrency: usize,
) -> Result<(f64, f64), BenchError> {
    let (mut our_times, mut plain_times) = (Vec::new(), Vec::new());
    let share = count.div_ceil(ROUNDS);
    for round in 0..ROUNDS {
        let root = folder.join(format!("plain-{round}"));
        plain_times.push(write_partition_files(&root, share, concurrency, &rows()).await?);
        let grid = grid(SMALL, round * share, share)?;
        our_times.push(extract(control, raw.clone(), grid, concurrency).await?.1);
    }
    let rate = |times: Vec<Duration>| share as f64 / median_time(times).as_secs_f64().max(1e-9);
    Ok((rate(our_times), rate(plain_times)))
}

/// How long it takes to request partitions of the small source, and then to extract, validate and authorise them in
/// this process.
pub(crate) async fn extract(
    control: &Control,
    raw: RawSink,
    grid: KeyGrid,
    concurrency: usize,
) -> Result<(Duration, Duration), BenchError> {
    let start = Instant::now();
    request(control, grid).await?;
    let requested = start.elapsed();
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
    let source = Source::new(SMALL, extractor, raw).with_concurrency(concurrency);
    let engine = Engine::new(control.store().clone()).with_source(source);
    let (_stopper, stop) = Stopper::new();
    let start = Instant::now();
    engine.run(stop, Until::Drained).await.map_err(failed)?;
    Ok((requested, start.elapsed()))
}
