//! One writer: commands share commits, and nobody is forgotten.

use std::{path::Path, sync::Arc};

use redrive_core::RunId;
use redrive_sqlite::{SqliteOptions, SqliteStore, WriterMode};
use redrive_store::{
    Journal as _, LeaseRef, LeaseRelease, Leased, Leases as _, Runs as _, Selection, Store as _,
    WorkerId,
};
use rusqlite::{Connection, types::Value};

use crate::{
    child::ChildProcess,
    scratch::{
        Scratch, accepted, all_runs, at, begin, begun, claim, entry, new_run, new_runs, passed,
        submit,
    },
};

/// Keeps the writer waiting, so that commands gather, until it is dropped.
pub(crate) struct BlockedWriter(Connection);

impl BlockedWriter {
    pub(crate) fn new(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(connection)
    }
}

impl Drop for BlockedWriter {
    fn drop(&mut self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

// OPS-1
#[tokio::test]
async fn commands_that_wait_share_a_commit_and_are_all_answered() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let commits = scratch.commits();
    let held = BlockedWriter::new(&scratch.path());
    let one = new_runs(1);
    let mut calls: Vec<_> = (0..300).map(|_| store.submit_runs(&one, at(0))).collect();
    calls.iter_mut().for_each(begin);
    drop(held);

    let mut ids = Vec::new();
    for call in calls {
        ids.extend(call.await.unwrap().into_iter().map(accepted));
    }
    assert!(ids.is_sorted(), "in the order they came");
    assert_eq!(all_runs(&store).await, ids);
    let shared = scratch.commits() - commits;
    assert!(shared <= 2, "{shared} commits for 300 commands");
}

// OPS-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_at_once_are_all_answered() {
    let scratch = Scratch::new();
    let store = Arc::new(scratch.open());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..10 {
                ids.extend(submit(&store, 3).await);
            }
            ids
        });
    }
    let mut ids: Vec<RunId> = tasks.join_all().await.into_iter().flatten().collect();
    ids.sort_unstable();
    assert_eq!(ids.len(), 64 * 10 * 3);
    assert_eq!(all_runs(&store).await, ids);
}

/// Everything that is stored, table by table.
fn rows(scratch: &Scratch) -> Vec<Vec<Value>> {
    let connection = scratch.raw();
    let tables = ["runs", "items", "attempts", "journal", "schema_migrations"];
    let mut rows = Vec::new();
    for table in tables {
        let sql = format!("SELECT * FROM {table} ORDER BY 1");
        let mut statement = connection.prepare(&sql).unwrap();
        let width = statement.column_count();
        let read = statement.query_map([], |row| (0..width).map(|n| row.get(n)).collect());
        rows.extend(read.unwrap().map(Result::unwrap));
    }
    rows
}

/// A little of everything, one call after the other.
async fn live(store: &SqliteStore) {
    let new: Vec<_> = (0..20).map(|n| new_run(["a", "b"][n % 2], at(n as i64))).collect();
    store.submit_runs(&new, at(30)).await.unwrap();
    let claimed = store.claim_runs(&claim(8)).await.unwrap();
    let finishes: Vec<_> = claimed[..5].iter().map(passed).collect();
    let _ = store.finish_runs(&finishes, at(2)).await.unwrap();
    let back = LeaseRelease {
        lease: LeaseRef { id: claimed[5].id.0, epoch: claimed[5].epoch },
        owner: WorkerId("w1".to_owned()),
        why: "shutdown".to_owned(),
    };
    let _ = store.release_leases(Leased::Run, &[back], at(3)).await.unwrap();
    store.append_journal(&[entry("a.b")]).await.unwrap();
    store.finish_runs(&finishes, at(2)).await.map(drop).unwrap();
}

// OPS-5
#[tokio::test]
async fn the_writer_writes_the_same_rows_inline_as_on_its_thread() {
    let [thread, inline] = [WriterMode::Thread, WriterMode::Inline].map(|writer| {
        let scratch = Scratch::new();
        let options = SqliteOptions {
            writer,
            lease_clock: Some(Arc::new(|| at(7))),
            ..SqliteOptions::default()
        };
        let store = SqliteStore::open(scratch.location(), options, at(0)).unwrap();
        (scratch, store)
    });
    live(&thread.1).await;
    live(&inline.1).await;
    let written = rows(&inline.0);
    assert!(written.len() > 25);
    assert_eq!(rows(&thread.0), written);
}

/// A call that never waits needs no runtime and no other thread: the caller's own does it all.
// OPS-5
#[test]
fn inline_a_call_is_done_when_it_returns() {
    let scratch = Scratch::new();
    let store = scratch.open_inline();
    let mut call = store.submit_runs(&[], at(0));
    let polled = begun(call.as_mut());
    assert!(polled.is_ready());
    let filter = Selection::default();
    let mut read = store.runs_page(&filter, RunId(0), 10.into());
    let polled = begun(read.as_mut());
    assert!(polled.is_ready());
}

// OPS-1
#[tokio::test]
async fn a_caller_that_goes_away_neither_loses_nor_halves_its_write() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let held = BlockedWriter::new(&scratch.path());
    let five = new_runs(5);
    let mut call = store.submit_runs(&five, at(0));
    begin(&mut call);
    drop(call);
    let never_begun = store.submit_runs(&five, at(0));
    drop(never_begun);
    drop(held);
    submit(&store, 1).await;
    assert_eq!(all_runs(&store).await.len(), 6);
}

// OPS-1
#[tokio::test]
async fn a_store_that_is_dropped_first_does_what_it_was_given() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let five = new_runs(5);
    for _ in 0..50 {
        let mut call = store.submit_runs(&five, at(0));
        let _ = begun(call.as_mut());
    }
    drop(store);
    assert_eq!(all_runs(&scratch.open()).await.len(), 250);
}

// OPS-1
#[tokio::test]
async fn a_write_waits_for_another_program_and_then_works() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let other = scratch.raw();
    other
        .execute_batch(
            "BEGIN IMMEDIATE; INSERT INTO journal (at, actor, action) VALUES (0, 'x', 'y')",
        )
        .unwrap();
    let one = new_runs(1);
    let mut call = store.submit_runs(&one, at(0));
    begin(&mut call);
    other.execute_batch("COMMIT").unwrap();
    call.await.unwrap();
}

// OPS-1
#[tokio::test]
async fn programs_that_write_to_one_file_lose_nothing() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let others = [(); 2].map(|()| ChildProcess::start("submit 100", &scratch.path()));
    for _ in 0..100 {
        submit(&store, 1).await;
    }
    for other in others {
        assert_eq!(other.finish().len(), 100);
    }
    assert_eq!(all_runs(&store).await.len(), 300);
    assert_eq!(store.integrity_problems().await.unwrap(), [""; 0]);
}

// OPS-1
#[tokio::test]
async fn readers_do_not_wait_for_a_write_that_is_under_way() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let ids = submit(&store, 3).await;
    let held = BlockedWriter::new(&scratch.path());
    held.0.execute_batch("UPDATE runs SET payload = 'changed'").unwrap();
    // More at once than there are reading connections.
    for _ in 0..3 {
        let reads: Vec<_> = (0..12).map(|_| store.runs_by_id(&ids)).collect();
        for read in reads {
            let runs = read.await.unwrap();
            assert!(runs.iter().all(|run| run.payload == r#"{"n":1}"#));
        }
    }
    store.ping().await.unwrap();
}

// OPS-1
#[tokio::test]
async fn a_reader_sees_what_was_acknowledged() {
    let scratch = Scratch::new();
    let store = scratch.open();
    for expected in 1..=200 {
        submit(&store, 1).await;
        let last = store.runs_by_id(&[RunId(expected)]).await.unwrap();
        assert_eq!(last.len(), 1);
    }
}
