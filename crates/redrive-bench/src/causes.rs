//! Causes and lists over a large store: the first page of causes beside a count over the ledger, and the first page of
//! runs with each filter beside the first page without one.

use std::{sync::Arc, time::Instant};

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use redrive::{PartitionRules, RawSink, StoreUrl};
use redrive_core::{Failure, RunId};
use redrive_engine::{Clock, SystemClock};
use redrive_ops::Ops;
use redrive_store::{
    ClaimedRun, PageLimit, RunCompletion, RunFinish, Selection, StateFilter, Store, WorkerId,
};
use tokio_postgres::NoTls;

use crate::{
    bench_store::{BenchStore, working_folder},
    error::{BenchError, failed},
    measurement::Measurement,
    server_data::{fill_runs, finish},
    sizes::scale,
    usage::median,
};

#[derive(Debug, Args)]
pub(crate) struct CausesBenchArgs {
    /// Amount of work, from 0.001 to 100; 1 is a store of a million runs, one attempt each, within one day
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,
}

/// The two sides of a ratio take turns, so that a slow minute affects both.
const ROUNDS: usize = 9;
const CAUSES: i64 = 200;
const PAGE: u32 = 100;
const DAY_SECONDS: i64 = 23 * 3_600;

/// What a list of causes would be without counts.
const OVER_THE_LEDGER: &str = "SELECT fingerprint, count(*), min(ended_at), max(ended_at), max(message) \
                               FROM attempts WHERE fingerprint IS NOT NULL GROUP BY fingerprint";

pub(crate) async fn run(
    args: &CausesBenchArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Measurement>, BenchError> {
    let bench_store = BenchStore::create(store_url, 4).await?;
    bench_store.measure(async |bench_store| measure(args, bench_store).await).await
}

async fn measure(
    args: &CausesBenchArgs,
    bench_store: &BenchStore,
) -> Result<Vec<Measurement>, BenchError> {
    let folder = working_folder()?;
    let store = bench_store.open().await?;
    fill_runs(&store, (1_000_000.0 * args.scale).ceil() as usize, finish_with_causes).await?;
    let raw = RawSink::folder(folder.path().join("raw"));
    let ops = Ops::new(Arc::clone(&store), None, PartitionRules::default(), raw);
    let ledger = LedgerReader::open(bench_store).await?;
    let (mut causes, mut bare) = (Vec::new(), Vec::new());
    let mut cause = None;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let page = ops.causes(None, None, None, PAGE).await.map_err(failed)?;
        causes.push(milliseconds(begun));
        cause = page.into_iter().next().map(|cause| cause.fingerprint);
        let begun = Instant::now();
        ledger.count_causes().await?;
        bare.push(milliseconds(begun));
    }
    let mut measurements =
        vec![Measurement::milliseconds("causes of a day", median(causes), median(bare))];
    for (measure, selection) in selections(cause) {
        let (mut times, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            times.push(first_page(&store, &selection).await?);
            bare.push(first_page(&store, &Selection::default()).await?);
        }
        measurements.push(Measurement::milliseconds(measure, median(times), median(bare)));
    }
    Ok(measurements)
}

fn selections(cause: Option<String>) -> Vec<(&'static str, Selection)> {
    let none = Selection::default;
    let text = |text: &str| Some(text.to_owned());
    let ago = |hours| SystemClock.now().checked_sub(SignedDuration::from_hours(hours)).ok();
    let state = |status, waiting| Some(StateFilter { status, waiting });
    vec![
        ("runs of a queue", Selection { queue: text("mail"), ..none() }),
        ("runs of a category", Selection { category: text("none"), ..none() }),
        ("runs of a cause", Selection { cause, ..none() }),
        ("runs of a code", Selection { code: text("65"), ..none() }),
        ("runs of a class", Selection { class: text("final"), ..none() }),
        ("runs of an error text", Selection { error: text("cannot be read"), ..none() }),
        ("runs of an error text that none has", Selection { error: text("never"), ..none() }),
        ("runs that failed in the last hour", Selection { failed_since: ago(1), ..none() }),
        ("runs that failed before", Selection { failed_until: ago(20), ..none() }),
        ("runs given up", Selection { state: state("error", Some(false)), ..none() }),
        ("runs waiting", Selection { state: state("error", Some(true)), ..none() }),
        ("runs in progress", Selection { state: state("processing", None), ..none() }),
        (
            "runs cancelled, of which there are none",
            Selection { state: state("cancelled", None), ..none() },
        ),
    ]
}

async fn first_page(store: &Arc<dyn Store>, selection: &Selection) -> Result<f64, BenchError> {
    let begun = Instant::now();
    let limit = PageLimit::without_data(PAGE);
    store.runs_page(selection, RunId(0), limit).await.map_err(failed)?;
    Ok(milliseconds(begun))
}

fn milliseconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1_000.0
}

/// Of twenty runs three fail, with one of many causes, at any time of the last day.
fn finish_with_causes(run: ClaimedRun, worker: &WorkerId) -> RunFinish {
    let id = run.id.0;
    let finish = finish(run, worker);
    let completion = match finish.completion {
        RunCompletion::Failed { failure, decision } => {
            let cause = letters(id.rem_euclid(CAUSES));
            let message = format!("{} in department {cause}", failure.message());
            RunCompletion::Failed { failure: Failure::exit(code_of(&failure), &message), decision }
        }
        other => other,
    };
    let ended_at = earlier(finish.ended_at, id.rem_euclid(DAY_SECONDS));
    RunFinish { completion, started_at: ended_at, ended_at, ..finish }
}

fn code_of(failure: &Failure) -> u8 {
    if failure.class().name() == "final" { 65 } else { 75 }
}

fn earlier(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(at)
}

/// A number as a word: causes do not differ in numbers.
fn letters(number: i64) -> String {
    let letter = |digit: char| char::from(b'a' + (digit as u8 - b'0') % 26);
    number.to_string().chars().map(letter).collect()
}

/// A connection beside the store's own.
enum LedgerReader {
    Sqlite(std::path::PathBuf),
    Postgres(tokio_postgres::Client),
    Memory,
}

impl LedgerReader {
    async fn open(bench_store: &BenchStore) -> Result<Self, BenchError> {
        Ok(match bench_store.url() {
            StoreUrl::SqliteFile(path) => Self::Sqlite(path.clone()),
            StoreUrl::SqliteMemory => Self::Memory,
            StoreUrl::Postgres(postgres) => {
                let connected = tokio_postgres::connect(postgres.with_password(), NoTls).await;
                let (client, connection) = connected.map_err(failed)?;
                tokio::spawn(connection);
                client.batch_execute("SET search_path = redrive").await.map_err(failed)?;
                // Autovacuum does this within minutes; without it every plan is a guess.
                client.batch_execute("VACUUM (ANALYZE)").await.map_err(failed)?;
                Self::Postgres(client)
            }
        })
    }

    async fn count_causes(&self) -> Result<(), BenchError> {
        match self {
            Self::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).map_err(failed)?;
                let mut query = connection.prepare(OVER_THE_LEDGER).map_err(failed)?;
                let mut rows = query.query([]).map_err(failed)?;
                while rows.next().map_err(failed)?.is_some() {}
            }
            Self::Postgres(client) => {
                client.query(OVER_THE_LEDGER, &[]).await.map_err(failed)?;
            }
            Self::Memory => {}
        }
        Ok(())
    }
}
