//! Real work whose store writes what it is told while its answers get lost: an upload over real HTTP, and samples that
//! stay with their worker from stage to stage.

use std::{
    collections::BTreeMap,
    fmt, fs,
    sync::{Arc, Mutex},
};

use jiff::Timestamp;
use redrive_core::{AttemptNumber, Failure, ItemId, PartitionKey, SampleId, SampleStatus};
use redrive_engine::{
    Clock, Engine, Handler, HttpUpload, HttpUploader, IteratorSource, Outcome, Pipeline, Queue,
    RawSink, Source, Stage, StageAnswer, Stopper, SystemClock, Until, UploadRequest, Uploader,
    extractor_fn, handler_fn, reference_content, stage_fn,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    AuditContext, ItemGroup, Lane, LedgerPlace, NamedPartition, NewItem, NewRun, Operator,
    PartitionAction, Selection, Store, UnitKind, UnitRow,
};
use serde_json::{Value, json};
use tracing::{Event, Level, Metadata, Subscriber, field::Field, span};

use super::{
    chance::Chance,
    clock::SimClock,
    faulty_store::FaultyStore,
    gate::Gate,
    log::Log,
    weather::{Conditions, Weather},
};
use crate::{
    program::LONG,
    web::{Seen, Web, answer},
};

const ITEMS: usize = 6;

/// Calls within which everything must have been sent.
const CALLS: usize = 100;

/// The store by a way on which answers get lost.
fn losing(store: &Arc<dyn Store>, conditions: Conditions) -> Arc<FaultyStore> {
    let weather = Weather::default();
    weather.set(conditions);
    Arc::new(FaultyStore {
        inner: store.clone(),
        who: "w".to_owned(),
        gate: Arc::new(Gate::new()),
        weather: Arc::new(weather),
        chance: Chance::new(7).into(),
        log: Arc::new(Log::new(Arc::new(SimClock::new()))),
        mutant: None,
        bells: Arc::default(),
        deaf: true,
    })
}

fn name_of(request: &Seen) -> String {
    request.header("redrive-item").unwrap().to_owned()
}

// UPL-1
#[tokio::test]
async fn each_sending_is_in_the_ledger_once_though_answers_of_the_store_get_lost() {
    let folder = tempfile::tempdir().unwrap();
    let now = Timestamp::UNIX_EPOCH;
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap());
    let group = ItemGroup { upload: "tiles".to_owned(), group: "g".to_owned() };
    let by = Operator { actor: "ada".to_owned(), at: now, reason: None };
    for n in 0..ITEMS {
        let path = folder.path().join(n.to_string());
        fs::write(&path, path.to_string_lossy().as_bytes()).unwrap();
        let kept = reference_content(&path).await.unwrap();
        let (group, name) = (group.clone(), n.to_string());
        let (content_url, size_bytes, sha256) = (kept.url, kept.size_bytes, kept.sha256);
        let item = NewItem { group, name, content_url, size_bytes, sha256 };
        store.add_items(&[item], &by).await.unwrap();
    }
    // Two times in three an item is rejected.
    let count = std::sync::atomic::AtomicUsize::new(0);
    let web = Web::new(move |_| {
        let time = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        answer(if time.is_multiple_of(3) { 200 } else { 503 }, "", "")
    })
    .await;

    let faulty = losing(&store, Conditions { loses_answer: 300, ..Conditions::default() });
    for _ in 0..CALLS {
        let (name, worker) = ("tiles".to_owned(), "w".to_owned());
        let (spec, time_limit) = (web.spec(), LONG);
        let http = HttpUpload { name, spec, concurrency: 2, time_limit, ready: None, worker };
        let content = RawSink::folder(folder.path()).content();
        let uploader = HttpUploader::new(http, faulty.clone(), content).unwrap();
        // A call that cannot read what is pending ends; the next one goes on.
        _ = uploader.upload_pending(&UploadRequest::new(group.clone())).await;
        if store.item_counts(&group).await.unwrap().pending == 0 {
            break;
        }
    }

    let mut received: BTreeMap<String, usize> = BTreeMap::new();
    web.seen().iter().for_each(|seen| *received.entry(name_of(seen)).or_default() += 1);
    let items = store.items_page(&Selection::default(), ItemId(0), 100.into()).await.unwrap();
    let mut written = BTreeMap::new();
    for item in items {
        let unit = UnitRow::new(UnitKind::Item, item.id.0);
        let ledger = store.attempts_of(&unit, AttemptNumber(0), 1_000).await.unwrap();
        written.insert(item.name, ledger.len());
    }
    assert_eq!(written, received, "as many attempts as there were requests");
}

/// Collects the warnings of this thread that say that the store refused a result, or that another worker has it.
#[derive(Clone, Default)]
struct Refusals(Arc<Mutex<Vec<String>>>);

impl Subscriber for Refusals {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut |field: &Field, value: &dyn fmt::Debug| {
            text.push_str(&format!("{field}={value:?} "));
        });
        if text.contains("refused") || text.contains("another worker") {
            self.0.lock().unwrap().push(text);
        }
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

// RUN-7
#[tokio::test]
async fn a_result_whose_first_answer_got_lost_is_not_reported_as_refused() {
    let refusals = Refusals::default();
    let _guard = tracing::subscriber::set_default(refusals.clone());
    const FINISHES: [&[&str]; 4] =
        [&["finish_runs"], &["finish_partitions"], &["finish_samples"], &["finish_feeds"]];
    for lost in FINISHES {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemClock.now();
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap());
        let by = Operator { actor: "test".to_owned(), at: now, reason: None };
        let runs: Vec<_> = (0..30).map(|n| NewRun::new("q", &json!(n), now).unwrap()).collect();
        store.submit_runs(&runs, now).await.unwrap();
        let days = (1..=30).map(|day| format!("ads/1/daily/2026-01-{day:02}").parse().unwrap());
        let days: Vec<_> = days.map(|key: PartitionKey| NamedPartition::from(key)).collect();
        let backfill = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
        let command = "test".to_owned();
        let audit = AuditContext { by: by.clone(), command, filter: None, flags: Vec::new() };
        store.change_partitions(&backfill, &days, &audit).await.unwrap();
        let numbers = IteratorSource::new("numbers", || (0..30).map(|n| json!({ "n": n })));
        let stage = Stage::new("a", counted("a", &Calls::default()));
        let pipeline = Pipeline::new("p", Arc::new(numbers)).with_stage(stage);
        store.start_pipeline_run(&pipeline.new_run(), &by).await.unwrap();

        let conditions =
            Conditions { loses_answer: 700, only: Some(lost), ..Conditions::default() };
        let handler = handler_fn(|_| async { Outcome::Answered { value: None, verdict: None } });
        let extractor =
            extractor_fn(|_, _| async { Outcome::Answered { value: None, verdict: None } });
        let engine = Engine::new(losing(&store, conditions))
            .with_queue(Queue::new("q", handler))
            .with_source(Source::new("ads", extractor, RawSink::folder(folder.path())))
            .with_pipeline(pipeline);
        let (_stopper, stop) = Stopper::new();
        engine.run(stop, Until::Drained).await.unwrap();
        for kind in [UnitKind::Run, UnitKind::Partition, UnitKind::Sample] {
            let ledger = store.ledger_page(kind, &LedgerPlace::start(), 1_000).await.unwrap();
            assert_eq!(ledger.len(), 30, "{lost:?}: {ledger:?}");
        }
        assert_eq!(*refusals.0.lock().unwrap(), [""; 0], "{lost:?}");
    }
}

const SAMPLES: u64 = 60;

const STAGES: [&str; 3] = ["a", "b", "c"];

/// The calls of each stage for each sample.
type Calls = Arc<Mutex<BTreeMap<(&'static str, u64), usize>>>;

fn counted(stage: &'static str, calls: &Calls) -> Arc<dyn Handler> {
    let calls = calls.clone();
    stage_fn(move |sample: Value| {
        *calls.lock().unwrap().entry((stage, sample["n"].as_u64().unwrap())).or_default() += 1;
        async move { Ok::<_, Failure>(StageAnswer::Sample(sample)) }
    })
}

/// An end whose answer is lost has been written, and its sample kept for the next stage. Written again it is
/// refused; then the sample is read back and goes on in the same hands. Were it not, it would wait for its lease
/// to end, and its next attempt would count as lost.
// PIP-1
#[tokio::test]
async fn a_sample_goes_on_to_its_next_stage_though_the_answer_that_it_was_kept_got_lost() {
    let now = Timestamp::UNIX_EPOCH;
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap());
    let numbers = IteratorSource::new("numbers", || (0..SAMPLES).map(|n| json!({ "n": n })));
    let calls = Calls::default();
    let pipeline = STAGES.into_iter().fold(Pipeline::new("p", Arc::new(numbers)), |all, stage| {
        all.with_stage(Stage::new(stage, counted(stage, &calls)))
    });
    let by = Operator { actor: "test".to_owned(), at: now, reason: None };
    store.start_pipeline_run(&pipeline.new_run(), &by).await.unwrap();

    let conditions =
        Conditions { loses_answer: 500, only: Some(&["finish_samples"]), ..Conditions::default() };
    let engine = Engine::new(losing(&store, conditions)).with_pipeline(pipeline);
    let (_stopper, stop) = Stopper::new();
    engine.run(stop, Until::Drained).await.unwrap();

    let filter = Selection { state: Some(SampleStatus::Succeeded.into()), ..Selection::default() };
    let samples = store.samples_page(&filter, SampleId(0), 1_000.into()).await.unwrap();
    assert_eq!(samples.len() as u64, SAMPLES);
    for sample in &samples {
        for stage in STAGES {
            let unit = UnitRow { kind: UnitKind::Sample, id: sample.id.0, stage: stage.to_owned() };
            let ledger = store.attempts_of(&unit, AttemptNumber(0), 10).await.unwrap();
            assert_eq!(ledger.len(), 1, "nothing was lost: {ledger:?}");
        }
    }
    let calls = calls.lock().unwrap();
    assert_eq!(calls.len() as u64, SAMPLES * STAGES.len() as u64);
    assert!(calls.values().all(|times| *times == 1), "no stage was done again: {calls:?}");
}
