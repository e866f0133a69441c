//! Partitions whose sink has no room.

use std::{fs, io::Write as _, path::Path, sync::Arc};

use redrive_core::{Cause, Failure, PartitionKey, PartitionStatus};
use redrive_engine::{Call, Clock, Engine, Outcome, RawSink, Source, Stopper, SystemClock, Until};
use redrive_engine::{RowWriter, extractor_fn};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    AuditContext, JournalFilter, Lane, NamedPartition, Operator, PartitionAction, PartitionRecord,
    Store,
};
use serde_json::json;
use tokio::sync::Semaphore;

use super::child;

fn day(day: i8) -> PartitionKey {
    format!("ads/1234/daily/2026-01-{day:02}").parse().unwrap()
}

async fn store_with_requests(keys: &[PartitionKey]) -> Arc<dyn Store> {
    let now = SystemClock.now();
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap());
    let by = Operator { actor: "test".to_owned(), at: now, reason: None };
    let audit = AuditContext { by, command: "test".to_owned(), filter: None, flags: Vec::new() };
    let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    let named: Vec<_> = keys.iter().cloned().map(NamedPartition::from).collect();
    store.change_partitions(&action, &named, &audit).await.unwrap();
    store
}

async fn record(store: &dyn Store, key: &PartitionKey) -> PartitionRecord {
    let records = store.partitions_by_key(std::slice::from_ref(key)).await.unwrap();
    records.into_iter().next().flatten().unwrap()
}

// PAR-3, PAR-6
#[test]
fn a_full_disk_fails_no_partition_and_they_go_on_when_there_is_room() {
    if let Some(answers) = child::play_on_a_small_disk("extract without room") {
        assert_eq!(answers, ["no verdict", "success after 1"]);
    }
}

/// A part of the test above.
pub(super) async fn extract(folder: &Path) {
    let key = day(31);
    let store = store_with_requests(std::slice::from_ref(&key)).await;
    let mut filler = fs::File::create(folder.join("filler")).unwrap();
    for size in [64 * 1024, 1] {
        while filler.write_all(&vec![0; size]).is_ok() {}
    }
    let sink = RawSink::folder(folder.join("raw"));
    assert!(sink.check().await.unwrap_err().is_disk_full(), "a doctor sees it");
    // It does not look at whether its rows could be written.
    let extractor = extractor_fn(|_, rows: RowWriter| async move {
        _ = rows.row(&json!({ "n": 1 })).await;
        Outcome::Answered { value: None, verdict: None }
    });
    let engine = Engine::new(store.clone()).with_source(Source::new("ads", extractor, sink));
    let (_stopper, stop) = Stopper::new();
    let record = async || record(&*store, &key).await;
    let making_room = async {
        let handed_back = JournalFilter {
            action: Some("partition.handback".to_owned()),
            ..JournalFilter::default()
        };
        let told = loop {
            let told = store.journal_page(&handed_back, 0, 10).await.unwrap();
            if let Some(first) = told.into_iter().next() {
                break first;
            }
            tokio::task::yield_now().await;
        };
        assert!(told.entry.details.contains("raw_full"), "{told:?}");
        let waiting = record().await;
        assert_eq!((waiting.status, waiting.attempt_count), (PartitionStatus::Pending, 0));
        child::answer("no verdict");
        drop(filler);
        fs::remove_file(folder.join("filler")).unwrap();
    };
    let (ended, ()) = tokio::join!(engine.run(stop, Until::Drained), making_room);
    ended.unwrap();
    let good = record().await;
    assert_eq!(good.status, PartitionStatus::Success, "{good:?}");
    child::answer(&format!("success after {}", good.attempt_count));
}

// PAR-2, PAR-6
#[test]
fn a_partition_larger_than_the_disk_fails_and_the_others_go_on() {
    if let Some(answers) = child::play_on_a_small_disk("extract one too large") {
        assert_eq!(answers, ["20 of 20 good ones", "failed after 1"]);
    }
}

/// A part of the test above.
pub(super) async fn extract_one_too_large(folder: &Path) {
    let keys: Vec<PartitionKey> = (1..=21).map(day).collect();
    let store = store_with_requests(&keys).await;
    let too_large = keys[0].clone();
    let extractor = extractor_fn(move |call: Call, rows: RowWriter| {
        let chunks = if call.unit.to_string().contains("2026-01-01") { 128 } else { 1 };
        async move {
            let chunk = b"{\"n\":1}\n".repeat(8 * 1024);
            for _ in 0..chunks {
                _ = rows.write(&chunk).await;
            }
            Outcome::Answered { value: None, verdict: None }
        }
    });
    let sink = RawSink::folder(folder.join("raw"));
    let engine = Engine::new(store.clone()).with_source(Source::new("ads", extractor, sink));
    let (_stopper, stop) = Stopper::new();
    engine.run(stop, Until::Drained).await.unwrap();
    let mut good = 0;
    for key in &keys[1..] {
        let record = record(&*store, key).await;
        good += u32::from(record.status == PartitionStatus::Success && record.attempt_count == 1);
    }
    child::answer(&format!("{good} of 20 good ones"));
    let failed = record(&*store, &too_large).await;
    assert_eq!(failed.status, PartitionStatus::Failed, "{failed:?}");
    let message = failed.error_message.unwrap();
    assert!(message.contains("does not fit in the free space of the raw sink"), "{message}");
    child::answer(&format!("failed after {}", failed.attempt_count));
}

// PAR-2, PAR-6
#[test]
fn a_partition_that_fills_the_disk_while_another_source_writes_does_not_fail() {
    if let Some(answers) = child::play_on_a_small_disk("extract beside another") {
        assert_eq!(answers, ["success after 1"]);
    }
}

/// A part of the test above. Each of two partitions fits on the disk, but not both.
pub(super) async fn extract_beside_another(folder: &Path) {
    const TRIES: u32 = 3;
    let (key, other) = (day(1), "tax/1234/daily/2026-01-01".parse().unwrap());
    let store = store_with_requests(&[key.clone(), other]).await;
    let (written, filled) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let tax = {
        let (written, filled) = (written.clone(), filled.clone());
        extractor_fn(move |_, rows: RowWriter| {
            let (written, filled) = (written.clone(), filled.clone());
            async move {
                assert!(fill_half(&rows).await);
                written.close();
                _ = filled.acquire_many(TRIES).await.unwrap();
                Outcome::Failed(Failure::exit(1, "leaves the disk to the other"))
            }
        })
    };
    let ads = extractor_fn(move |_, rows: RowWriter| {
        let (written, filled) = (written.clone(), filled.clone());
        async move {
            _ = written.acquire().await;
            if !fill_half(&rows).await {
                filled.add_permits(1);
            }
            Outcome::Answered { value: None, verdict: None }
        }
    });
    let sink = RawSink::folder(folder.join("raw"));
    let engine = Engine::new(store.clone())
        .with_source(Source::new("tax", tax, sink.clone()))
        .with_source(Source::new("ads", ads, sink));
    let (_stopper, stop) = Stopper::new();
    engine.run(stop, Until::Drained).await.unwrap();
    let record = record(&*store, &key).await;
    child::answer(&format!("{} after {}", record.status.name(), record.attempt_count));
}

/// Writes more than half a disk, and says whether there was room.
async fn fill_half(rows: &RowWriter) -> bool {
    let chunk = b"{\"n\":1}\n".repeat(8 * 1024);
    for _ in 0..40 {
        if rows.write(&chunk).await.is_err() {
            return false;
        }
    }
    true
}

// PAR-2
#[tokio::test]
async fn the_code_raw_full_from_an_extractor_is_an_ordinary_failure() {
    let folder = tempfile::tempdir().unwrap();
    let key = day(31);
    let store = store_with_requests(std::slice::from_ref(&key)).await;
    let extractor = extractor_fn(|_, _| async {
        Outcome::Failed(Failure::named("raw_full", Cause::Handler, "the program says so"))
    });
    let sink = RawSink::folder(folder.path());
    let engine = Engine::new(store.clone()).with_source(Source::new("ads", extractor, sink));
    let (_stopper, stop) = Stopper::new();
    engine.run(stop, Until::Drained).await.unwrap();
    let failed = record(&*store, &key).await;
    assert_eq!((failed.status, failed.attempt_count), (PartitionStatus::Failed, 1));
    assert!(failed.error_message.unwrap().contains("the program says so"));
}
