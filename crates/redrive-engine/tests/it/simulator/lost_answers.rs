//! A real upload, over real HTTP, whose store writes what it is told while its answers get lost.

use std::{collections::BTreeMap, fs, sync::Arc};

use jiff::Timestamp;
use redrive_core::{AttemptNumber, ItemId};
use redrive_engine::{
    HttpUpload, HttpUploader, RawSink, UploadRequest, Uploader, reference_content,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{ItemFilter, ItemGroup, NewItem, Operator, Store, UnitKind, UnitRow};

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

    let weather = Weather::default();
    weather.set(Conditions { loses_answer: 300, ..Conditions::default() });
    let faulty = Arc::new(FaultyStore {
        inner: store.clone(),
        who: "w".to_owned(),
        gate: Arc::new(Gate::new()),
        weather: Arc::new(weather),
        chance: Chance::new(7).into(),
        log: Arc::new(Log::new(Arc::new(SimClock::new()))),
        mutant: None,
        bells: Arc::default(),
        deaf: true,
    });
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
    let items = store.items_page(&ItemFilter::default(), ItemId(0), 100).await.unwrap();
    let mut written = BTreeMap::new();
    for item in items {
        let unit = UnitRow::new(UnitKind::Item, item.id.0);
        let ledger = store.attempts_of(&unit, AttemptNumber(0), 1_000).await.unwrap();
        written.insert(item.name, ledger.len());
    }
    assert_eq!(written, received, "as many attempts as there were requests");
}
