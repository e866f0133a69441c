//! Runs that an operator has locked stay where they are, also those that moved while they were being locked.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::RunStatus;
use redrive_store::{
    Categories, ClaimRequest, DataEdit, JournalEntry, NewRun, Runs, WorkerId, Written,
};
use serde_json::json;

use crate::{faults::until_blocked, server::Database};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

// FIX-5
#[tokio::test]
async fn a_run_that_its_worker_returns_while_an_operator_locks_it_is_locked_where_it_waits() {
    let database = Database::migrated().await;
    let store = Arc::new(database.store().await);
    let run = NewRun::new("q", &json!(1), NOW).unwrap();
    store.submit_runs(&[run], NOW).await.unwrap();
    let request = ClaimRequest {
        queue: "q".to_owned(),
        categories: Categories::All,
        limit: 1,
        owner: WorkerId("w".to_owned()),
        lease_until: NOW,
        now: NOW,
        gates: Default::default(),
    };
    let id = store.claim_runs(&request).await.unwrap().remove(0).id;

    // A finish that is not committed yet, when the operator has found the run neither waiting nor ready.
    let worker = database.raw().await;
    let finish = "BEGIN; DELETE FROM redrive.run_claims;
        INSERT INTO redrive.run_states (id, queue, category, submitted_at, status, waits, attempts, next_retry_at)
        SELECT id, queue, category, submitted_at, 'error', true, 1, 'epoch' FROM redrive.runs;
        INSERT INTO redrive.due_runs (queue, due_at, id, category, submitted_at, fresh)
        SELECT queue, 'epoch', id, category, submitted_at, false FROM redrive.runs";
    worker.batch_execute(finish).await.unwrap();
    let entry = JournalEntry {
        at: NOW,
        actor: "ada".to_owned(),
        action: "run.edit".to_owned(),
        unit: None,
        filter: None,
        details: "{}".to_owned(),
        dedupe_key: None,
    };
    let edit =
        DataEdit { id: id.0, old: Some("1".to_owned()), new: "2".to_owned(), journal: entry };
    let operator = store.clone();
    let edited = tokio::spawn(async move { operator.edit_runs(&[edit]).await.unwrap() });
    let other = database.raw().await;
    until_blocked(&other).await;

    // The operator has locked everything before it writes to the journal.
    other.batch_execute("BEGIN; LOCK TABLE redrive.journal IN SHARE MODE").await.unwrap();
    worker.batch_execute("COMMIT").await.unwrap();
    let waiting =
        "SELECT FROM pg_locks WHERE relation = 'redrive.journal'::regclass AND NOT granted";
    while other.query_opt(waiting, &[]).await.unwrap().is_none() {}
    assert_eq!(store.claim_runs(&request).await.unwrap(), [], "nobody takes the run meanwhile");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(edited.await.unwrap(), [Written::Applied]);

    let stored = store.runs_by_id(&[id]).await.unwrap().remove(0);
    assert_eq!((stored.status, stored.payload.as_str()), (RunStatus::Error, "2"));
    let again = store.claim_runs(&request).await.unwrap().remove(0);
    assert_eq!((again.id, again.payload.as_str()), (id, "2"));
}
