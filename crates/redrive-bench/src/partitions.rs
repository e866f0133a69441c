//! Partitions: asked for, looked at, retried and extracted, beside bare loops.

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
    Control, Daemon, Failure as UnitFailure, KeyGrid, LogicalDate, Operator, PartitionCommand,
    PartitionRules, PartitionSelection, RawSink, RowWriter, RunMode, Source, Stopper, Until,
    extractor_fn,
};
use redrive_core::DateRange;
use redrive_ops::{Ops, PartitionQuery};
use redrive_engine::{Engine, Outcome};
use redrive_store::{
    Lane, PartitionClaim, PartitionFinish, AuditContext, PartitionVerdict, PartitionAction, Store,
    WorkerId,
};
use tracing::{instrument::WithSubscriber, subscriber::NoSubscriber};

use super::{
    contender::{at, failed},
    partition_loop::PartitionLoop,
    place::Place,
    plain_files::write_plainly,
    runs::{Measure, forget_peak_memory, peak_memory},
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

    /// Connections to PostgreSQL; as many as a store has by itself
    #[arg(long, default_value = "10", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// Partitions that the bare loop asks for, and that are judged, at a time.
const BATCH: usize = 1_000;

/// Rows of a page of `state inspect`.
const PAGE: u32 = 100;

/// Redrive and the bare loop take turns this often, so that a slow minute hits both.
const ROUNDS: usize = 5;

/// The source whose partitions are small.
pub(super) const SMALL: &str = "small";

/// Rows of a small partition.
const ROWS: usize = 100;

/// Measures, and removes what it made.
pub(crate) async fn run(arguments: &Arguments, context: &Context) -> Result<Vec<Measure>, Failure> {
    let place = Place::new(context, arguments.connections).await?;
    place.measured(async |place| measure(arguments, place).await).await
}

async fn measure(arguments: &Arguments, place: &Place) -> Result<Vec<Measure>, Failure> {
    let folder = tempfile::Builder::new().prefix("redrive-bench-").tempdir_in(".");
    let folder = folder.map_err(failed)?;
    let raw = RawSink::folder(folder.path().join("raw"));
    let control = Control::new(place.store().await?, PartitionRules::default(), raw.clone());
    let many = |at_one: f64| ((at_one * arguments.scale).ceil() as usize).max(ROUNDS);
    let (some, all) = (many(100_000.0), many(1_000_000.0));
    fill(&control, 0..some).await?;
    let few = tick(&control).await?;
    let (backfilled, bare) = backfill(&control, place, many(100_000.0)).await?;
    let mut measures = vec![Measure::beside("partitions backfilled", backfilled, bare)];

    fill(&control, some..all).await?;
    let page = first_page_time(&control).await?;
    measures.push(Measure::alone("first page of state inspect", page, "ms"));
    let many_more = tick(&control).await?;
    for (time, memory, tick) in [
        ("tick of the daemon, a tenth", "memory of that tick", few),
        ("tick of the daemon, all", "memory of this tick", many_more),
    ] {
        measures.push(Measure::alone(time, tick.seconds, "s"));
        measures.extend(tick.megabytes.map(|peak| Measure::alone(memory, peak, "MB")));
    }

    let (count, at_once) = (many(10_000.0), usize::from(arguments.concurrency));
    let (extracted, plain) = extract_all(&control, raw, folder.path(), count, at_once).await?;
    measures.push(Measure::beside("partitions extracted and judged", extracted, plain));
    measures.extend(peak_memory().map(|peak| Measure::alone("peak memory", peak, "MB")));
    Ok(measures)
}

/// Partitions asked for per second, by the control plane and by a bare loop.
async fn backfill(control: &Control, place: &Place, count: usize) -> Result<(f64, f64), Failure> {
    let bare = PartitionLoop::open(place.url()).await?;
    let (mut our_times, mut bare_times) = (Vec::new(), Vec::new());
    let share = count.div_ceil(ROUNDS);
    for round in 0..ROUNDS {
        let grid = grid("bench", round * share, share)?;
        let days: Vec<_> =
            grid.keys().map(|key| (key.customer_id().to_owned(), key.logical_date())).collect();
        let start = Instant::now();
        ask(control, grid).await?;
        our_times.push(start.elapsed());
        let start = Instant::now();
        for batch in days.chunks(BATCH) {
            bare.insert(batch).await?;
        }
        bare_times.push(start.elapsed());
    }
    let rate = |times: Vec<Duration>| share as f64 / median(times).as_secs_f64().max(1e-9);
    Ok((rate(our_times), rate(bare_times)))
}

/// Of as many as there are rounds.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(ROUNDS / 2).copied().unwrap_or_default()
}

/// About so many keys of a source, from the n-th on: a hundred days of each customer.
pub(super) fn grid(source: &str, from: usize, count: usize) -> Result<KeyGrid, Failure> {
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

fn order() -> AuditContext {
    let by = Operator { actor: "bench".to_owned(), at: at(0), reason: None };
    AuditContext { by, command: "bench".to_owned(), filter: None, flags: Vec::new() }
}

/// What `state backfill` does.
pub(super) async fn ask(control: &Control, grid: KeyGrid) -> Result<(), Failure> {
    let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Backfill };
    let command = PartitionCommand::new(action, order());
    let selection = PartitionSelection::Grid(grid);
    let mut sweep = control.sweep(&command, &selection, RunMode::Real);
    while sweep.next().await.map_err(failed)?.is_some() {}
    Ok(())
}

/// Makes partitions from the n-th to the m-th, and one in a hundred of all there are then has failed.
async fn fill(control: &Control, range: Range<usize>) -> Result<(), Failure> {
    let Range { start, end } = range;
    let bad = |count: usize| count.div_ceil(100);
    for (source, from, to) in
        [("crowd", start - bad(start), end - bad(end)), ("failing", bad(start), bad(end))]
    {
        ask(control, grid(source, from, to - from)?).await?;
    }
    let verdict = PartitionVerdict::Rejected { failure: UnitFailure::exit(75, "no data yet") };
    judge(control.store(), "failing", &format!("{start:08}"), &verdict).await
}

/// Has everything that is asked for of a source judged alike. The run ids begin as told.
pub(super) async fn judge(
    store: &Arc<dyn Store>,
    source: &str,
    run_ids: &str,
    verdict: &PartitionVerdict,
) -> Result<(), Failure> {
    let worker = WorkerId("bench".to_owned());
    for batch in 0.. {
        let ids = (0..BATCH).map(|n| format!("{run_ids}-{batch:08}-{n:04}").parse());
        let claim = PartitionClaim {
            source: source.to_owned(),
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

/// Milliseconds until there is a page of `state inspect`, the best of a few: the first waits for the disk.
async fn first_page_time(control: &Control) -> Result<f64, Failure> {
    let (store, raw) = (control.store().clone(), control.raw().clone());
    let ops = Ops::new(store, None, PartitionRules::default(), raw);
    let query = PartitionQuery { limit: PAGE, ..PartitionQuery::default() };
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let page = ops.partitions_page(&query).await.map_err(failed)?;
        let shown: Vec<_> = page.into_iter().map(|found| ops.show_partition(found)).collect();
        black_box(shown);
        best = best.min(start.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(best)
}

/// What a tick of the daemon takes.
struct Tick {
    seconds: f64,
    /// The most that the process had meanwhile.
    megabytes: Option<f64>,
}

/// Has the daemon find everything that failed and retry it. Its log is not printed.
async fn tick(control: &Control) -> Result<Tick, Failure> {
    let daemon = Daemon::new(control.clone(), "bench");
    forget_peak_memory();
    let start = Instant::now();
    daemon.tick().with_subscriber(NoSubscriber::default()).await.map_err(failed)?;
    Ok(Tick { seconds: start.elapsed().as_secs_f64(), megabytes: peak_memory() })
}

/// The rows of a small partition, as lines.
fn rows() -> Vec<u8> {
    let row =
        |n| format!("{{\"n\": {n}, \"campaign\": \"spring\", \"clicks\": 17}}\n").into_bytes();
    (0..ROWS).flat_map(row).collect()
}

/// Partitions extracted per second by Redrive, and written by a plain program.
async fn extract_all(
    control: &Control,
    raw: RawSink,
    folder: &Path,
    count: usize,
    at_once: usize,
) -> Result<(f64, f64), Failure> {
    let (mut our_times, mut plain_times) = (Vec::new(), Vec::new());
    let share = count.div_ceil(ROUNDS);
    for round in 0..ROUNDS {
        let root = folder.join(format!("plain-{round}"));
        plain_times.push(write_plainly(&root, share, at_once, &rows()).await?);
        let grid = grid(SMALL, round * share, share)?;
        our_times.push(extract(control, raw.clone(), grid, at_once).await?.1);
    }
    let rate = |times: Vec<Duration>| share as f64 / median(times).as_secs_f64().max(1e-9);
    Ok((rate(our_times), rate(plain_times)))
}

/// How long it takes to ask for partitions of the small source, and then to extract them in this process, to judge and to
/// authorise them.
pub(super) async fn extract(
    control: &Control,
    raw: RawSink,
    grid: KeyGrid,
    at_once: usize,
) -> Result<(Duration, Duration), Failure> {
    let start = Instant::now();
    ask(control, grid).await?;
    let asked = start.elapsed();
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
    let source = Source::new(SMALL, extractor, raw).with_concurrency(at_once);
    let engine = Engine::new(control.store().clone()).with_source(source);
    let (_stopper, stop) = Stopper::new();
    let start = Instant::now();
    engine.run(stop, Until::Drained).await.map_err(failed)?;
    Ok((asked, start.elapsed()))
}
