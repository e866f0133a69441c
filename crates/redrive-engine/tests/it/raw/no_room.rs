//! Partitions whose sink has no room.

use std::{fs, io::Write as _, path::Path, sync::Arc};

use redrive_core::{Cause, Failure, PartitionKey, PartitionStatus};
use redrive_engine::{Clock, Engine, Outcome, RawSink, Source, Stopper, SystemClock, Until};
use redrive_engine::{RowWriter, extractor_fn};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    AuditContext, JournalFilter, Lane, NamedPartition, Operator, PartitionAction, Store,
};
use serde_json::json;

use super::child;

// PAR-3, PAR-6
#[test]
fn a_full_disk_fails_no_partition_and_they_go_on_when_there_is_room() {
    if let Some(answers) = child::play_on_a_small_disk("extract without room") {
        assert_eq!(answers, ["no verdict", "success after 1"]);
    }
}

/// A part of the test above.
pub(super) async fn extract(folder: &Path) {
    let now = SystemClock.now();
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap());
    let key: PartitionKey = "ads/1234/daily/2026-01-31".parse().unwrap();
    let by = Operator { actor: "test".to_owned(), at: now, reason: None };
    let order = AuditContext { by, command: "test".to_owned(), filter: None, flags: Vec::new() };
    let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    store.change_partitions(&action, &[NamedPartition::from(key.clone())], &order).await.unwrap();
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
    let record = async || {
        let records = store.partitions_by_key(std::slice::from_ref(&key)).await.unwrap();
        records.into_iter().next().flatten().unwrap()
    };
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

// PAR-2
#[tokio::test]
async fn the_code_raw_full_from_an_extractor_is_an_ordinary_failure() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemClock.now();
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap());
    let key: PartitionKey = "ads/1234/daily/2026-01-31".parse().unwrap();
    let by = Operator { actor: "test".to_owned(), at: now, reason: None };
    let audit = AuditContext { by, command: "test".to_owned(), filter: None, flags: Vec::new() };
    let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    store.change_partitions(&action, &[NamedPartition::from(key.clone())], &audit).await.unwrap();
    let extractor = extractor_fn(|_, _| async {
        Outcome::Failed(Failure::named("raw_full", Cause::Handler, "the program says so"))
    });
    let sink = RawSink::folder(folder.path());
    let engine = Engine::new(store.clone()).with_source(Source::new("ads", extractor, sink));
    let (_stopper, stop) = Stopper::new();
    engine.run(stop, Until::Drained).await.unwrap();
    let records = store.partitions_by_key(std::slice::from_ref(&key)).await.unwrap();
    let failed = records.into_iter().next().flatten().unwrap();
    assert_eq!((failed.status, failed.attempt_count), (PartitionStatus::Failed, 1));
    assert!(failed.error_message.unwrap().contains("the program says so"));
}
