//! Partitions of lost workers, in a process that serves several sources with one reaper.

use std::{sync::Arc, time::Duration};

use redrive_core::{PartitionKey, PartitionStatus};
use redrive_engine::{
    Call, Clock, Engine, Outcome, RawSink, RowWriter, Source, Stopper, SystemClock, Until,
    ValidationHandler, ValidationRules, extractor_fn, handler_fn,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    AuditContext, Lane, NamedPartition, Operator, PartitionAction, PartitionClaim, Store, WorkerId,
};
use serde_json::json;

/// Leaves a sealed partition of a source to the reaper, as a worker that was lost before its verdict.
async fn lose(store: &Arc<dyn Store>, sink: &RawSink, source: &str) -> PartitionKey {
    let now = SystemClock.now();
    let key: PartitionKey = format!("{source}/7/daily/2026-01-31").parse().unwrap();
    let by = Operator { actor: "test".to_owned(), at: now, reason: None };
    let audit = AuditContext { by, command: "test".to_owned(), filter: None, flags: Vec::new() };
    let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    store.change_partitions(&action, &[NamedPartition::from(key.clone())], &audit).await.unwrap();
    let run_id = format!("lost-{source}").parse().unwrap();
    let claim = PartitionClaim {
        source: source.to_owned(),
        run_ids: vec![run_id],
        backfill: 0,
        owner: WorkerId("lost".to_owned()),
        lease_until: store.now() - Duration::from_secs(1),
    };
    let claimed = store.claim_partitions(&claim).await.unwrap().remove(0);
    let mut writer = sink.begin(&key, &claimed.run_id).await.unwrap();
    writer.write(b"{\"n\": 1}\n").await.unwrap();
    writer.seal(redrive_engine::Extracted::default()).await.unwrap();
    key
}

// PAR-4, RUN-7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_validator_that_panics_fails_its_partition_and_delays_no_other_source() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemClock.now();
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap());
    let sink = RawSink::folder(folder.path());
    let extractor = extractor_fn(|_, rows: RowWriter| async move {
        rows.row(&json!({ "n": 1 })).await.unwrap();
        Outcome::Answered { value: None, verdict: None }
    });
    let panics = handler_fn(|call: Call| async move {
        assert!(call.attempt.0 == 0, "no verdict on {}", call.unit);
        Outcome::Stopped
    });
    let handler = Some(ValidationHandler { handler: panics, time_limit: Duration::from_secs(5) });
    let source = |name: &str| Source::new(name, extractor.clone(), sink.clone());
    let bad = source("bad").with_rules(ValidationRules { handler, ..ValidationRules::default() });
    let (bad_key, good_key) = (lose(&store, &sink, "bad").await, lose(&store, &sink, "good").await);
    let engine = Engine::new(store.clone()).with_source(bad).with_source(source("good"));
    let (_stopper, stop) = Stopper::new();
    engine.run(stop, Until::Drained).await.unwrap();
    let records = store.partitions_by_key(&[bad_key, good_key]).await.unwrap();
    let [Some(bad), Some(good)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((bad.status, bad.attempt_count), (PartitionStatus::Failed, 1), "{bad:?}");
    assert!(bad.error_message.as_deref().unwrap().contains("panicked"), "{bad:?}");
    assert_eq!((good.status, good.attempt_count), (PartitionStatus::Success, 1), "{good:?}");
}
