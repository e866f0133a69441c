//! Uploads: what retrying adds, counting, and items sent beside a bare client.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use clap::Args;
use http::{HeaderMap, HeaderName, Method};
use redrive::{
    Content, Failure as UnitFailure, FolderContent, HttpSpec, HttpUpload, HttpUploader, ItemGroup,
    ItemId, ItemOutcome, ItemRecord, ItemReport, NewItem, Policy, PolicySpec, Preset,
    RetrySettings, RetryingUploader, Stopper, Store, UploadError, UploadEvent, UploadObserver,
    UploadOutcome, UploadReport, UploadRequest, Uploader,
};
use redrive_store::AddedItem;
use tokio::task::JoinSet;

use super::{
    contender::failed,
    marks::Marker,
    place::Place,
    requests::{IDEMPOTENCY_KEY, Server, headers},
    runs::Measure,
    scale,
    spent::{Begun, Spent},
};
use crate::{
    context::Context,
    exit::{Exit, Failure},
    operator::operator,
};

/// The arguments of `bench uploads`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How much to do, from 0.001 to 100; 1 is 10 000 items of 1 KB and 10 000 counts
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,

    /// Items sent at once
    #[arg(long, default_value = "8", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: u16,

    /// Connections to PostgreSQL; SQLite has one writer
    #[arg(long, default_value = "8", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// Who counts at once.
const CALLERS: usize = 8;

/// The size of an item.
const ITEM_BYTES: usize = 1024;

/// A hash, as long as they are.
const SHA256: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// Calls of an uploader that does nothing.
const CALLS: u32 = 20_000;

/// How often an upload is told to stop.
const STOPS: usize = 100;

/// Turns between the three that are compared: all meet the same weather.
const ROUNDS: usize = 3;

/// Measures, and removes what it made.
pub(crate) async fn run(arguments: &Arguments, context: &Context) -> Result<Vec<Measure>, Failure> {
    let place = Place::new(context, arguments.connections).await?;
    place.measured(async |place| measure(arguments, place).await).await
}

async fn measure(arguments: &Arguments, place: &Place) -> Result<Vec<Measure>, Failure> {
    let store = place.store().await?;
    let count = ((10_000.0 * arguments.scale).ceil() as usize).max(CALLERS);
    let mut measures =
        vec![Measure::alone("retrying, on a success at once", added(&store).await?, "µs")];
    let [p50, p99] = counting(&store, count).await?;
    measures.push(Measure::alone("an attempt counted, 8 callers, p50", p50, "ms"));
    measures.push(Measure::alone("an attempt counted, 8 callers, p99", p99, "ms"));
    measures.push(Measure::alone(
        "told to stop in a sleep, longest",
        stopping(&store).await?,
        "ms",
    ));
    let at_once = arguments.concurrency.into();
    let (mut bare, mut marked, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let server = Server::new(Duration::ZERO)?;
        bare.push(bare_client(&server, count, at_once).await?);
        marked.push(bare_with_marks(&store, place, &server, count, at_once, round).await?);
        sent.push(upload(&store, &server, count, at_once, round).await?);
    }
    let [bare, marked, sent] = [bare, marked, sent].map(|all| Spent::median(&all));
    let beside = |what, other: Spent| Measure::beside(what, sent.per_second, other.per_second);
    measures.push(beside("items of 1 KB uploaded", bare));
    measures.push(beside("the same, bare marks included", marked));
    let costs = |what, other: Spent| Measure::costs(what, sent.processor, other.processor);
    measures.push(costs("processor time of an item", bare));
    measures.push(costs("the same, bare marks included", marked));
    Ok(measures)
}

/// What a bare client sends of an item: as much as an upload does.
fn request(number: usize) -> Result<(HeaderMap, Bytes), Failure> {
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

/// What a bare client takes for an item.
async fn bare_client(server: &Server, count: usize, at_once: usize) -> Result<Spent, Failure> {
    let begun = Begun::now();
    server.send(count, at_once, request, |_, _| Ok(())).await?;
    Ok(begun.done(count))
}

/// The same of a bare client whose answers are written by a bare loop, as durably: what this
/// machine has to give.
async fn bare_with_marks(
    store: &Arc<dyn Store>,
    place: &Place,
    server: &Server,
    count: usize,
    at_once: usize,
    round: usize,
) -> Result<Spent, Failure> {
    let group = ItemGroup { group: format!("bare-{round}"), ..group(round) };
    let items: Vec<NewItem> = (0..count).map(|n| item(&group, n, String::new())).collect();
    let ids = Arc::new(add(store, &items).await?);
    let marker = Marker::start(place).await?;
    let answered = marker.answered();
    let begun = Begun::now();
    let tell = move |number: usize, _| {
        // A marker that is gone says why at its end.
        _ = ids.get(number).map(|id| answered.send(*id));
        Ok(())
    };
    server.send(count, at_once, request, tell).await?;
    marker.finish().await?;
    Ok(begun.done(count))
}

/// How long an upload takes to end that is told to stop in a sleep of a minute, in milliseconds.
async fn stopping(store: &Arc<dyn Store>) -> Result<f64, Failure> {
    let _quiet = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::default());
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
        let rejecting = Fixed(UploadReport::new(
            UploadOutcome::Partial,
            items.iter().map(|id| rejected(*id)).collect(),
        ));
        let uploader = RetryingUploader::new(rejecting, store.clone(), settings.clone(), "bench")
            .with_observer(observer);
        let (stopper, stop) = Stopper::new();
        let request = UploadRequest::new(stopped.clone()).with_stop(stop);
        let telling = async {
            // One that ended before it slept has an error to tell.
            _ = asleep.wait_for(|asleep| *asleep).await;
            stopper.stop();
            Instant::now()
        };
        let (ended, told) = tokio::join!(uploader.upload_pending(&request), telling);
        ended.map_err(failed)?;
        longest = longest.max(told.elapsed());
    }
    Ok(longest.as_secs_f64() * 1e3)
}

fn rejected(item: ItemId) -> ItemReport {
    let failure = UnitFailure::http(503, None, "no");
    ItemReport { item, outcome: ItemOutcome::Rejected(failure) }
}

/// An uploader that does nothing and always says the same.
struct Fixed(UploadReport);

#[async_trait]
impl Uploader for Fixed {
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

/// What the uploader that retries takes beyond the bare one, in microseconds.
async fn added(store: &Arc<dyn Store>) -> Result<f64, Failure> {
    // The start of each call is logged; how long a terminal takes for that is not the question.
    let _quiet = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::default());
    let idle = || Fixed(UploadReport::new(UploadOutcome::Success, Vec::new()));
    let retrying = RetryingUploader::new(idle(), store.clone(), RetrySettings::default(), "bench");
    let mut beyond = Vec::new();
    for _ in 0..ROUNDS {
        beyond.push(per_call(&retrying).await? - per_call(&idle()).await?);
    }
    beyond.sort_unstable_by(f64::total_cmp);
    Ok(beyond.get(ROUNDS / 2).copied().unwrap_or_default())
}

async fn per_call(uploader: &dyn Uploader) -> Result<f64, Failure> {
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

/// The 50th and 99th of a hundred times it takes to count an attempt, in milliseconds.
async fn counting(store: &Arc<dyn Store>, count: usize) -> Result<[f64; 2], Failure> {
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
            Ok::<_, Failure>(times)
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

async fn add(store: &Arc<dyn Store>, items: &[NewItem]) -> Result<Vec<ItemId>, Failure> {
    let mut ids = Vec::new();
    for items in items.chunks(1_000) {
        let added = store.add_items(items, &operator(None)).await.map_err(failed)?;
        ids.extend(added.into_iter().filter_map(|added| match added {
            AddedItem::Accepted(id) => Some(id),
            AddedItem::Duplicate(_) | AddedItem::Conflict(_) => None,
        }));
    }
    Ok(ids)
}

/// The same of Redrive, from files that were left where they are; every acknowledgement is written.
async fn upload(
    store: &Arc<dyn Store>,
    server: &Server,
    count: usize,
    at_once: usize,
    round: usize,
) -> Result<Spent, Failure> {
    let folder = tempfile::tempdir().map_err(failed)?;
    let group = group(round);
    let mut items = Vec::with_capacity(count);
    for number in 0..count {
        let path = folder.path().join(number.to_string());
        std::fs::write(&path, content(number)).map_err(failed)?;
        if number + 1 == count {
            // The journal of the file system has the others before it; the first commit need not wait.
            std::fs::File::open(&path).and_then(|file| file.sync_all()).map_err(failed)?;
        }
        items.push(item(&group, number, format!("file:{}", path.display())));
    }
    add(store, &items).await?;
    let upload = HttpUpload {
        name: "bench".to_owned(),
        spec: HttpSpec::new(Method::POST, server.url.clone()),
        concurrency: at_once,
        time_limit: Duration::from_secs(60),
        ready: None,
        worker: "bench".to_owned(),
    };
    let contents: Arc<dyn Content> = Arc::new(FolderContent::new(folder.path()));
    let bare = HttpUploader::new(upload, store.clone(), contents).map_err(failed)?;
    let uploader = RetryingUploader::new(bare, store.clone(), RetrySettings::default(), "bench");
    let begun = Begun::now();
    let report = uploader.upload_pending(&UploadRequest::new(group)).await.map_err(failed)?;
    let spent = begun.done(count);
    if report.outcome != UploadOutcome::Success {
        return Err(Failure::new(Exit::Error, "the measurement broke off: an item was rejected"));
    }
    Ok(spent)
}
