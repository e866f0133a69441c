//! Partitions that can be read, page by page.

use std::sync::Arc;

use redrive_core::PartitionKey;
use redrive_engine::{
    Clock, Consumer, Engine, Outcome, RawSink, Source, Stopper, SystemClock, Until, extractor_fn,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    AuditContext, Lane, NamedPartition, Operator, PartitionAction, Selection, Store,
};

// PAR-12
#[tokio::test]
async fn a_page_does_not_end_early_at_partitions_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (file, now) = (folder.path().join("store.db"), SystemClock.now());
    let store = SqliteStore::open(Location::File(file.clone()), SqliteOptions::default(), now);
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    let keys: [PartitionKey; 4] =
        [1, 2, 3, 4].map(|day| format!("ads/7/daily/2026-01-{day:02}").parse().unwrap());
    let by = Operator { actor: "test".to_owned(), at: now, reason: None };
    let audit = AuditContext { by, command: "test".to_owned(), filter: None, flags: Vec::new() };
    let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    let named: Vec<_> = keys.iter().cloned().map(NamedPartition::from).collect();
    store.change_partitions(&action, &named, &audit).await.unwrap();
    let extractor = extractor_fn(|_, _| async { Outcome::Answered { value: None, verdict: None } });
    let sink = RawSink::folder(folder.path().join("raw"));
    let source = Source::new("ads", extractor, sink.clone());
    let (_stopper, stop) = Stopper::new();
    Engine::new(store.clone()).with_source(source).run(stop, Until::Drained).await.unwrap();
    let damage = "PRAGMA ignore_check_constraints = 1;
        UPDATE partition_state SET current_run_id = NULL WHERE logical_date <= '2026-01-02'";
    rusqlite::Connection::open(file).unwrap().execute_batch(damage).unwrap();

    let page = Consumer::new(store, sink).page(&Selection::default(), None, 2).await.unwrap();
    let found: Vec<_> = page.into_iter().map(|readable| readable.key).collect();
    assert_eq!(found, keys[2..]);
}
