//! Partitions of lost workers, in a process that serves several sources with one reaper.

use std::{sync::Arc, time::Duration};

use redrive_core::{PartitionKey, PartitionStatus};
use redrive_engine::{
    Call, Clock, Engine, Handler, Outcome, RawSink, RowWriter, Source, Stopper, SystemClock, Until,
    ValidationHandler, ValidationRules, WorkerLimits, extractor_fn, handler_fn,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    AuditContext, GateRules, Lane, NamedPartition, Operator, PartitionAction, PartitionClaim,
    PartitionRecord, Store, WorkerId,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Semaphore;

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
        gates: GateRules::default(),
        now: jiff::Timestamp::UNIX_EPOCH,
        source: source.to_owned(),
        run_ids: vec![run_id],
        backfill: redrive_store::BackfillShare::default(),
        owner: WorkerId("lost".to_owned()),
        lease_until: store.now() - Duration::from_secs(1),
    };
    let claimed = store.claim_partitions(&claim).await.unwrap().remove(0);
    let mut writer = sink.begin(&key, &claimed.run_id).await.unwrap();
    writer.write(b"{\"n\": 1}\n").await.unwrap();
    writer.seal(redrive_engine::Extracted::default()).await.unwrap();
    key
}

/// Two sources whose workers were lost. The partitions of one are judged by a handler.
struct Losses {
    store: Arc<dyn Store>,
    keys: [PartitionKey; 2],
    engine: Engine,
    _folder: TempDir,
}

impl Losses {
    async fn judged_by(handler: Arc<dyn Handler>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemClock.now();
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap());
        let sink = RawSink::folder(folder.path());
        let extractor = extractor_fn(|_, rows: RowWriter| async move {
            rows.row(&json!({ "n": 1 })).await.unwrap();
            Outcome::Answered { value: None, verdict: None }
        });
        let handler = Some(ValidationHandler { handler, time_limit: Duration::from_secs(60) });
        // A reaper that has just started waits for half a lease.
        let limits = WorkerLimits { lease: Duration::from_secs(1), ..WorkerLimits::default() };
        let source =
            |name: &str| Source { limits, ..Source::new(name, extractor.clone(), sink.clone()) };
        let rules = ValidationRules { handler, ..ValidationRules::default() };
        let keys = [lose(&store, &sink, "bad").await, lose(&store, &sink, "good").await];
        let engine = Engine::new(store.clone())
            .with_source(source("bad").with_rules(rules))
            .with_source(source("good"));
        Self { store, keys, engine, _folder: folder }
    }

    async fn records(&self) -> [PartitionRecord; 2] {
        let records = self.store.partitions_by_key(&self.keys).await.unwrap();
        let records: Vec<_> = records.into_iter().flatten().collect();
        records.try_into().unwrap()
    }

    async fn drain(&self) {
        let (_stopper, stop) = Stopper::new();
        self.engine.run(stop, Until::Drained).await.unwrap();
    }
}

// PAR-4, RUN-7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_validator_that_takes_long_delays_no_other_source() {
    let goes_on = Arc::new(Semaphore::new(0));
    let waits = goes_on.clone();
    let slow = handler_fn(move |_: Call| {
        let waits = waits.clone();
        async move {
            _ = waits.acquire().await.unwrap();
            Outcome::Answered { value: None, verdict: None }
        }
    });
    let losses = Losses::judged_by(slow).await;
    let until_good = async {
        loop {
            let [bad, good] = losses.records().await;
            if good.status == PartitionStatus::Success {
                break assert_eq!(bad.status, PartitionStatus::Pending);
            }
            tokio::task::yield_now().await;
        }
        goes_on.add_permits(1);
    };
    tokio::join!(losses.drain(), until_good);
    let statuses = losses.records().await.map(|record| (record.status, record.attempt_count));
    assert_eq!(statuses, [(PartitionStatus::Success, 1); 2]);
}

// PAR-4, RUN-7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_validator_that_panics_fails_its_partition_and_delays_no_other_source() {
    let panics = handler_fn(|call: Call| async move {
        assert!(call.attempt.0 == 0, "no verdict on {}", call.unit);
        Outcome::Stopped
    });
    let losses = Losses::judged_by(panics).await;
    losses.drain().await;
    let [bad, good] = losses.records().await;
    assert_eq!((bad.status, bad.attempt_count), (PartitionStatus::Failed, 1), "{bad:?}");
    assert!(bad.error_message.as_deref().unwrap().contains("panicked"), "{bad:?}");
    assert_eq!((good.status, good.attempt_count), (PartitionStatus::Success, 1), "{good:?}");
}
