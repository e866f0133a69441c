//! The daemon's own loop, in virtual time. A year of its ticks is in the root's `tests/it/daemon_year.rs`, on
//! both stores.

use std::{sync::Arc, time::Duration};

use redrive_core::{Cause, Failure, PartitionKey, PartitionStatus};
use redrive_engine::{Clock, Control, Daemon, PartitionRules, RawSink, SteadyClock, Stopper};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore, WriterMode};
use redrive_store::{
    AuditContext, GateRules, Lane, Operator, PartitionAction, PartitionClaim, PartitionFinish,
    PartitionVerdict, Partitions as _, Store as _, WorkerId, Written,
};

// DMN-1, DMN-2
#[tokio::test(start_paused = true)]
async fn the_loop_ticks_at_every_interval_and_stops_at_once() {
    // On the caller's thread: time stands still while the database works.
    let options = SqliteOptions { writer: WriterMode::Inline, ..SqliteOptions::default() };
    let clock = Arc::new(SteadyClock::default());
    let store = Arc::new(SqliteStore::open(Location::Memory, options, clock.now()).unwrap());
    let key = failed(&store, clock.now()).await;
    let raw = RawSink::folder("never-looked-at");
    let control = Control::new(store.clone(), PartitionRules::default(), raw);
    let daemon = Daemon::new(control, "daemon").with_clock(clock);
    let (stopper, stop) = Stopper::new();
    let running = tokio::spawn(async move { daemon.run(Duration::from_secs(60), stop).await });
    let start = tokio::time::Instant::now();
    loop {
        tokio::time::advance(Duration::from_secs(10)).await;
        tokio::task::yield_now().await;
        let found = store.partitions_by_key(std::slice::from_ref(&key)).await.unwrap();
        if found[0].as_ref().unwrap().status == PartitionStatus::Pending {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(400), "five minutes and some jitter");
    }
    assert!(start.elapsed() >= Duration::from_secs(270), "{:?}", start.elapsed());
    stopper.stop();
    running.await.unwrap();
}

/// A partition that failed just now.
async fn failed(store: &SqliteStore, now: jiff::Timestamp) -> PartitionKey {
    let key: PartitionKey = "ads/7/daily/2026-03-01".parse().unwrap();
    let by = Operator { actor: "ada".to_owned(), at: now, reason: None };
    let order = AuditContext { by, command: "test".to_owned(), filter: None, flags: Vec::new() };
    let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    store.change_partitions(&action, &[key.clone().into()], &order).await.unwrap();
    let claim = PartitionClaim {
        gates: GateRules::default(),
        now: jiff::Timestamp::UNIX_EPOCH,
        source: "ads".to_owned(),
        run_ids: vec!["r1".parse().unwrap()],
        backfill: redrive_store::BackfillShare::default(),
        owner: WorkerId("w".to_owned()),
        lease_until: store.now() + Duration::from_secs(60),
    };
    let held = store.claim_partitions(&claim).await.unwrap().remove(0);
    let failure = Failure::named("too_few_rows", Cause::Validator, "no rows");
    let finish = PartitionFinish {
        gates: None,
        key: held.key,
        lease: held.lease,
        attempt: held.attempt,
        run_id: held.run_id,
        started_at: now,
        ended_at: now,
        worker: WorkerId("w".to_owned()),
        verdict: PartitionVerdict::Rejected { failure },
    };
    assert_eq!(store.finish_partitions(&[finish]).await.unwrap(), [Written::Applied]);
    key
}
