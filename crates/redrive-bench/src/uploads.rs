//! Uploads: what retrying and counting add, and items sent, compared with a bare client.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use clap::Args;
use http::{HeaderMap, HeaderName, Method};
use redrive::{
    Content, Failure, FolderContent, HttpSpec, HttpUpload, HttpUploader, ItemGroup, ItemId,
    ItemOutcome, ItemRecord, ItemReport, NewItem, Policy, PolicySpec, Preset, RetrySettings,
    RetryingUploader, Stopper, Store, StoreUrl, UploadError, UploadEvent, UploadObserver,
    UploadOutcome, UploadReport, UploadRequest, Uploader,
};
use redrive_engine::{Clock, SystemClock};
use redrive_store::{AddedItem, Operator};
use tokio::task::JoinSet;

use crate::{
    bench_store::BenchStore,
    error::{BenchError, failed},
    item_marker::ItemMarker,
    measurement::Measurement,
    reply_server::{IDEMPOTENCY_KEY, ReplyServer, headers},
    sizes::scale,
    usage::{Stopwatch, Usage},
};

#[derive(Debug, Args)]
pub(crate) struct UploadsBenchArgs {
    /// Amount of work, from 0.001 to 100; 1 is 10 000 items of 1 KB and 10 000 counts
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,

    /// Items sent at once
    #[arg(long, default_value = "8", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: u16,

    /// Connections to PostgreSQL; SQLite has one writer
    #[arg(long, default_value = "8", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// Tasks that count attempts at once.
const CALLERS: usize = 8;

const ITEM_BYTES: usize = 1024;

/// Any hash: only its length matters.
const SHA256: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// Calls of an uploader that does nothing.
const CALLS: u32 = 20_000;

/// How often stopping an upload is measured.
const STOPS: usize = 100;

/// The three that are compared take this many turns, so that a slow minute affects all of them.
const ROUNDS: usize = 3;

pub(crate) async fn run(
    args: &UploadsBenchArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Measurement>, BenchError> {
    let bench_store = BenchStore::create(store_url, args.connections).await?;
    bench_store.measure(async |bench_store| measure(args, bench_store).await).await
}

async fn measure(
    args: &UploadsBenchArgs,
    bench_store: &BenchStore,
) -> Result<Vec<Measurement>, BenchError> {
    let store = bench_store.open().await?;
    let count = ((10_000.0 * args.scale).ceil() as usize).max(CALLERS);
    let mut measurements = vec![Measurement::alone(
        "retrying, on a success at once",
        retrying_overhead(&store).await?,
        "µs",
    )];
    let [p50, p99] = count_times(&store, count).await?;
    measurements.push(Measurement::alone("an attempt counted, 8 callers, p50", p50, "ms"));
    measurements.push(Measurement::alone("an attempt counted, 8 callers, p99", p99, "ms"));
    measurements.push(Measurement::alone(
        "told to stop in a sleep, longest",
        stop_time(&store).await?,
        "ms",
    ));
    let concurrency = args.concurrency.into();
    let (mut bare, mut marked, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let server = ReplyServer::new(Duration::ZERO)?;
        bare.push(bare_client(&server, count, concurrency).await?);
        marked
            .push(bare_with_marks(&store, bench_store, &server, count, concurrency, round).await?);
        sent.push(upload(&store, &server, count, concurrency, round).await?);
    }
    let [bare, marked, sent] = [bare, marked, sent].map(|all| Usage::median(&all));
    let rate = |what, other: Usage| Measurement::rate(what, sent.per_second, other.per_second);
    measurements.push(rate("items of 1 KB uploaded", bare));
    measurements.push(rate("the same, bare marks included", marked));
    let cpu =
        |what, other: Usage| Measurement::microseconds(what, sent.cpu_micros, other.cpu_micros);
    measurements.push(cpu("processor time of an item", bare));
    measurements.push(cpu("the same, bare marks included", marked));
    Ok(measurements)
}

/// The request of a bare client: as many headers and bytes as an upload sends.
fn request(number: usize) -> Result<(HeaderMap, Bytes), BenchError> {
    static BODY: [u8; ITEM_BYTES] = [b'x'; ITEM_BYTES];
    let mut headers = headers("application/octet-stream");
    let item = format!("item-{number:06}");
    let own = [
        (IDEMPOTENCY_KEY, format!("item:{number}-{}", &SHA256[..16])),
        (HeaderName::from_static("redrive-group"), "bare".to_owned()),
        (HeaderName::from_static("redrive-item"), item),
        (HeaderName::from_static("redrive-sha256"), SHA256.to_owned()),
    ];
    for (name, value) in own {
        headers.insert(name, value.parse().map_err(failed)?);
    }
    Ok((headers, Bytes::from_static(&BODY)))
}

async fn bare_client(
    server: &ReplyServer,
    count: usize,
    concurrency: usize,
) -> Result<Usage, BenchError> {
    let stopwatch = Stopwatch::start();
    server.send(count, concurrency, request, |_, _| Ok(())).await?;
    Ok(stopwatch.usage_for(count))
}

/// A bare client whose acknowledgements a bare loop writes as durably as Redrive does: the best that this machine
/// can do.
async fn bare_with_marks(
    store: &Arc<dyn Store>,
    bench_store: &BenchStore,
    server: &ReplyServer,
    count: usize,
    concurrency: usize,
    round: usize,
) -> Result<Usage, BenchError> {
    let group = ItemGroup { group: format!("bare-{round}"), ..group(round) };
    let items: Vec<NewItem> = (0..count).map(|n| item(&group, n, String::new())).collect();
    let ids = Arc::new(add(store, &items).await?);
    let marker = ItemMarker::start(bench_store).await?;
    let answered = marker.sender();
    let stopwatch = Stopwatch::start();
    let record = move |number: usize, _| {
        // If the marker has failed, `finish` returns its error.
        _ = ids.get(number).map(|id| answered.send(*id));
        Ok(())
    };
    server.send(count, concurrency, request, record).await?;
    marker.finish().await?;
    Ok(stopwatch.usage_for(count))
}

/// The longest time from a stop signal, sent in a retry delay of a minute, to the end of the upload, in milliseconds.
async fn stop_time(store: &Arc<dyn Store>) -> Result<f64, BenchError> {
    let minute = Duration::from_secs(60);
    let spec =
        PolicySpec { max_attempts: None, base: minute, cap: minute, ..Preset::Upload.spec() };
    let settings = RetrySettings::new(Policy::new(spec).map_err(failed)?, 3);
    let stopped = ItemGroup { group: "stopped".to_owned(), ..group(0) };
    let items = add(store, &[item(&stopped, 0, String::new())]).await?;
    let mut longest = Duration::ZERO;
    for _ in 0..STOPS {
        let (sleeping, mut asleep) = tokio::sync::watch::channel(false);
        let observer: UploadObserver = Arc::new(move |event| {
            if matches!(event, UploadEvent::Retrying { .. }) {
                sleeping.send_replace(true);
            }
        });
        let rejecting = FixedUploader(UploadReport::new(
            UploadOutcome::Partial,
            items.iter().map(|id| rejected(*id)).collect(),
        ));
        let uploader = RetryingUploader::new(rejecting, store.clone(), settings.clone(), "bench")
            .with_observer(observer);
        let (stopper, stop) = Stopper::new();
        let request = UploadRequest::new(stopped.clone()).with_stop(stop);
        let stopping = async {
            // An upload that ended before its delay returns an error below.
            _ = asleep.wait_for(|asleep| *asleep).await;
            stopper.stop();
            Instant::now()
        };
        let (ended, stopped_at) = tokio::join!(uploader.upload_pending(&request), stopping);
        ended.map_err(failed)?;
        longest = longest.max(stopped_at.elapsed());
    }
    Ok(longest.as_secs_f64() * 1e3)
}

fn rejected(item: ItemId) -> ItemReport {
    let failure = Failure::http(503, None, "no");
    ItemReport { item, outcome: ItemOutcome::Rejected(failure) }
}

/// An uploader that does nothing and always returns the same report.
struct FixedUploader(UploadReport);

#[async_trait]
impl Uploader for FixedUploader {
    async fn upload_pending(&self, _: &UploadRequest) -> Result<UploadReport, UploadError> {
        Ok(self.0.clone())
    }

    async fn enumerate_pending(
        &self,
        _: &ItemGroup,
        _: ItemId,
        _: u32,
    ) -> Result<Vec<ItemRecord>, UploadError> {
        Ok(Vec::new())
    }

    async fn confirm_ready(&self) -> Result<(), UploadError> {
        Ok(())
    }
}

/// What the retrying uploader adds to a call of the bare one, in microseconds.
async fn retrying_overhead(store: &Arc<dyn Store>) -> Result<f64, BenchError> {
    let idle = || FixedUploader(UploadReport::new(UploadOutcome::Success, Vec::new()));
    let retrying = RetryingUploader::new(idle(), store.clone(), RetrySettings::default(), "bench");
    let mut beyond = Vec::new();
    for _ in 0..ROUNDS {
        beyond.push(per_call(&retrying).await? - per_call(&idle()).await?);
    }
    beyond.sort_unstable_by(f64::total_cmp);
    Ok(beyond.get(ROUNDS / 2).copied().unwrap_or_default())
}

async fn per_call(uploader: &dyn Uploader) -> Result<f64, BenchError> {
    let request = UploadRequest::new(group(0));
    let start = Instant::now();
    for _ in 0..CALLS {
        uploader.upload_pending(&request).await.map_err(failed)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS))
}

fn group(round: usize) -> ItemGroup {
    ItemGroup { upload: "bench".to_owned(), group: round.to_string() }
}

/// The 50th and 99th percentile of the time to count an attempt, in milliseconds.
async fn count_times(store: &Arc<dyn Store>, count: usize) -> Result<[f64; 2], BenchError> {
    let counted = ItemGroup { group: "counted".to_owned(), ..group(0) };
    let items: Vec<NewItem> = (0..CALLERS * 16).map(|n| item(&counted, n, String::new())).collect();
    let ids = add(store, &items).await?;
    let mut tasks = JoinSet::new();
    for ids in ids.chunks(16) {
        let (store, ids) = (store.clone(), ids.to_vec());
        tasks.spawn(async move {
            let mut times = Vec::new();
            for id in ids.iter().cycle().take(count / CALLERS) {
                let start = Instant::now();
                store.increment_upload_attempts(*id).await.map_err(failed)?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            Ok::<_, BenchError>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        times.extend(ended.map_err(failed)??);
    }
    times.sort_unstable_by(f64::total_cmp);
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    Ok([at(50), at(99)])
}

fn item(group: &ItemGroup, number: usize, content_url: String) -> NewItem {
    NewItem {
        group: group.clone(),
        name: format!("item-{number:06}"),
        content_url,
        size_bytes: ITEM_BYTES as u64,
        sha256: redrive_engine::sha256_of(&content(number)),
    }
}

fn content(number: usize) -> Vec<u8> {
    let mut content = format!("{number:08}").into_bytes();
    content.resize(ITEM_BYTES, b'x');
    content
}

async fn add(store: &Arc<dyn Store>, items: &[NewItem]) -> Result<Vec<ItemId>, BenchError> {
    let operator = Operator { actor: "bench".to_owned(), at: SystemClock.now(), reason: None };
    let mut ids = Vec::new();
    for items in items.chunks(1_000) {
        let added = store.add_items(items, &operator).await.map_err(failed)?;
        ids.extend(added.into_iter().filter_map(|added| match added {
            AddedItem::Accepted(id) => Some(id),
            AddedItem::Duplicate(_) | AddedItem::Conflict(_) => None,
        }));
    }
    Ok(ids)
}

/// An upload by Redrive, from files; every acknowledgement is written.
async fn upload(
    store: &Arc<dyn Store>,
    server: &ReplyServer,
    count: usize,
    concurrency: usize,
    round: usize,
) -> Result<Usage, BenchError> {
    let folder = tempfile::tempdir().map_err(failed)?;
    let group = group(round);
    let mut items = Vec::with_capacity(count);
    for number in 0..count {
        let path = folder.path().join(number.to_string());
        std::fs::write(&path, content(number)).map_err(failed)?;
        if number + 1 == count {
            // Syncing the last file syncs the journal with all files before it, so that the first commit need not wait.
            std::fs::File::open(&path).and_then(|file| file.sync_all()).map_err(failed)?;
        }
        items.push(item(&group, number, format!("file:{}", path.display())));
    }
    add(store, &items).await?;
    let upload = HttpUpload {
        name: "bench".to_owned(),
        spec: HttpSpec::new(Method::POST, server.url.clone()),
        concurrency,
        time_limit: Duration::from_secs(60),
        ready: None,
        worker: "bench".to_owned(),
    };
    let contents: Arc<dyn Content> = Arc::new(FolderContent::new(folder.path()));
    let bare = HttpUploader::new(upload, store.clone(), contents).map_err(failed)?;
    let uploader = RetryingUploader::new(bare, store.clone(), RetrySettings::default(), "bench");
    let stopwatch = Stopwatch::start();
    let report = uploader.upload_pending(&UploadRequest::new(group)).await.map_err(failed)?;
    let spent = stopwatch.usage_for(count);
    if report.outcome != UploadOutcome::Success {
        return Err(BenchError::new("the benchmark failed: the server rejected an item"));
    }
    Ok(spent)
}
