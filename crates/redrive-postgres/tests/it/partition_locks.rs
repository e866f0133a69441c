//! Whoever changes a partition waits for those that have locked it, and then decides on what they left.
//!
//! Each case holds a lock in a transaction of its own and waits until the store waits for it. A store that locked
//! another row would read the old state here, and overwrite the new one.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use redrive_core::{Failure, GateSettings, PartitionKey, PartitionState};
use redrive_postgres::PostgresStore;
use redrive_store::{
    AuditContext, DeclaredGate, GateRule, GateRules, Gates, Lane, Operator, PartitionAction,
    PartitionChange, PartitionClaim, PartitionFinish, PartitionRecord, PartitionVerdict,
    Partitions, PassedGates, WorkerId, Written,
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

/// Claims the partition; the verdict is that it failed.
async fn failed(store: &PostgresStore, run: &str, gates: Option<PassedGates>) -> PartitionFinish {
    let claim = PartitionClaim {
        gates: GateRules::default(),
        now: Timestamp::UNIX_EPOCH,
        source: "a_source".to_owned(),
        run_ids: vec![run.parse().unwrap()],
        backfill: redrive_store::BackfillShare::default(),
        owner: WorkerId("w1".to_owned()),
        lease_until: at(60),
    };
    let claimed = store.claim_partitions(&claim).await.unwrap().remove(0);
    PartitionFinish {
        gates,
        key: key(),
        lease: claimed.lease,
        attempt: claimed.attempt,
        run_id: claimed.run_id,
        started_at: at(2),
        ended_at: at(3),
        worker: WorkerId("w1".to_owned()),
        verdict: PartitionVerdict::Rejected { failure: Failure::http(429, None, "no rows") },
    }
}

// GAT-2, CAU-1
#[tokio::test]
async fn a_verdict_that_waits_for_its_gate_has_not_locked_its_cause() {
    let database = Database::migrated().await;
    let store = pending(&database).await;
    let first = failed(&store, "run-1", None).await;
    assert_eq!(store.finish_partitions(&[first]).await.unwrap(), [Written::Applied]);
    let retry = PartitionAction::Retry { clear_terminal: false, lane: Lane::Fresh };
    change(&store, retry, 4).await;
    let second = Duration::from_secs(1);
    let settings = GateSettings::new(None, None, None, second, second).unwrap();
    let rules = Arc::new([GateRule { name: "api".to_owned(), is_keyed: false, settings }]);
    let finish = failed(&store, "run-2", Some(PassedGates { rules, key: String::new() })).await;
    let gate = DeclaredGate { name: "api".to_owned(), ..DeclaredGate::default() };
    store.declare_gates(&vec![gate].into(), at(5)).await.unwrap();

    let other = database.raw().await;
    let lock = "SELECT pg_advisory_xact_lock(1734440037, hashtext('api'))";
    other.batch_execute(&format!("BEGIN; {lock}")).await.unwrap();
    let call = tokio::spawn(async move { store.finish_partitions(&[finish]).await.unwrap() });
    until_blocked(&database.raw().await).await;
    let causes = "SET lock_timeout = '5s'; SELECT FROM redrive.causes FOR UPDATE; COMMIT";
    other.batch_execute(causes).await.expect("no other transaction holds a cause and waits");
    assert_eq!(call.await.unwrap(), [Written::Applied]);
}

#[tokio::test]
async fn a_retry_finds_the_mark_that_was_written_while_it_waited() {
    let database = Database::migrated().await;
    let store = pending(&database).await;
    let finish = failed(&store, "run-1", None).await;
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
