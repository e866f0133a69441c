//! Whoever changes a partition waits for those that have locked it, and then decides on what they left.
//!
//! Each case holds a lock in a transaction of its own and waits until the store waits for it. A store that locked
//! another row would read the old state here, and overwrite the new one.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use redrive_core::{Failure, PartitionKey, PartitionState};
use redrive_postgres::PostgresStore;
use redrive_store::{
    AuditContext, GateRules, Lane, Operator, PartitionAction, PartitionChange, PartitionClaim,
    PartitionFinish, PartitionRecord, PartitionVerdict, Partitions, WorkerId, Written,
};

use crate::{faults::until_blocked, server::Database};

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

/// A key whose parts all differ.
fn key() -> PartitionKey {
    let day = "2026-03-01".parse().unwrap();
    PartitionKey::new("a_source", "a_customer", "a_query", day).unwrap()
}

async fn change(store: &PostgresStore, action: PartitionAction, second: i64) -> PartitionChange {
    let audit = AuditContext {
        by: Operator { actor: "ada".to_owned(), at: at(second), reason: None },
        command: "a command".to_owned(),
        filter: None,
        flags: Vec::new(),
    };
    store.change_partitions(&action, &[key().into()], &audit).await.unwrap()[0]
}

async fn partition(store: &PostgresStore) -> PartitionRecord {
    store.partitions_by_key(&[key()]).await.unwrap().remove(0).unwrap()
}

/// A store with one pending partition.
async fn pending(database: &Database) -> Arc<PostgresStore> {
    let store = Arc::new(database.store().await);
    let backfill = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    assert_eq!(change(&store, backfill, 1).await, PartitionChange::Done(PartitionState::Absent));
    store
}

/// Changes the partition while another transaction has run this SQL and not committed yet.
async fn change_meanwhile(
    database: &Database,
    store: &Arc<PostgresStore>,
    sql: &str,
    action: PartitionAction,
) -> PartitionChange {
    let other = database.raw().await;
    other.batch_execute("BEGIN").await.unwrap();
    other.batch_execute(sql).await.unwrap();
    let store = Arc::clone(store);
    let call = tokio::spawn(async move { change(&store, action, 9).await });
    until_blocked(&database.raw().await).await;
    other.batch_execute("COMMIT").await.unwrap();
    call.await.unwrap()
}

#[tokio::test]
async fn a_retry_finds_the_mark_that_was_written_while_it_waited() {
    let database = Database::migrated().await;
    let store = pending(&database).await;
    let claim = PartitionClaim {
        gates: GateRules::default(),
        now: Timestamp::UNIX_EPOCH,
        source: "a_source".to_owned(),
        run_ids: vec!["run-1".parse().unwrap()],
        backfill: redrive_store::BackfillShare::default(),
        owner: WorkerId("w1".to_owned()),
        lease_until: at(60),
    };
    let claimed = store.claim_partitions(&claim).await.unwrap().remove(0);
    let finish = PartitionFinish {
        gates: None,
        key: key(),
        lease: claimed.lease,
        attempt: claimed.attempt,
        run_id: claimed.run_id,
        started_at: at(2),
        ended_at: at(3),
        worker: WorkerId("w1".to_owned()),
        verdict: PartitionVerdict::Rejected { failure: Failure::http(503, None, "no rows") },
    };
    assert_eq!(store.finish_partitions(&[finish]).await.unwrap(), [Written::Applied]);

    let mark = "UPDATE redrive.partition_state SET error_message = '[terminal] no rows'";
    let retry = PartitionAction::Retry { clear_terminal: false, lane: Lane::Fresh };
    let changed = change_meanwhile(&database, &store, mark, retry).await;
    assert_eq!(changed, PartitionChange::Refused(PartitionState::Terminal));
    assert_eq!(partition(&store).await.state(), PartitionState::Terminal);
}

#[tokio::test]
async fn a_pause_keeps_the_lease_that_was_granted_while_it_waited() {
    let database = Database::migrated().await;
    let store = pending(&database).await;
    let claim = "UPDATE redrive.partition_work SET lease_owner = 'w2', lease_epoch = 1,
                 lease_until = to_timestamp(60), run_id = 'run-2'";
    let changed = change_meanwhile(&database, &store, claim, PartitionAction::Pause).await;
    assert_eq!(changed, PartitionChange::Done(PartitionState::Pending));
    let work = partition(&store).await.work.unwrap();
    assert_eq!(work.lease_owner, Some(WorkerId("w2".to_owned())));
    assert_eq!((work.lease_epoch.0, work.lease_until), (1, Some(at(60))));
    assert_eq!(work.paused.map(|by| by.at), Some(at(9)));
}
