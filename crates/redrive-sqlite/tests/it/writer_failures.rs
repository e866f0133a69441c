//! What a failure inside a shared transaction does to the commands around it.

use redrive_core::AttemptNumber;
use redrive_sqlite::SqliteStore;
use redrive_store::{
    AttemptOutcome, AttemptRecord, Error, Journal as _, JournalFilter, Ledger as _, Runs as _,
    UnitKind, UnitRow,
};

use crate::{
    scratch::{Scratch, all_runs, at, begin, entry, new_runs, submit, told},
    writer::BlockedWriter,
};

fn attempt(number: u32) -> AttemptRecord {
    AttemptRecord {
        unit: UnitRow::new(UnitKind::Item, 1),
        stage_config_hash: None,
        attempt: AttemptNumber(number),
        counted: true,
        run_id: None,
        started_at: at(1),
        ended_at: at(2),
        outcome: AttemptOutcome::Success,
        class: None,
        code: None,
        message: None,
        fingerprint: None,
        cause: None,
        delay: None,
        worker: "w1".to_owned(),
        asked: None,
    }
}

async fn journal_length(store: &SqliteStore) -> usize {
    let everything = JournalFilter::default();
    let page = store.journal_page(&everything, 0, 1_000).await;
    page.unwrap().len()
}

// OPS-1
#[tokio::test]
async fn a_command_that_fails_is_undone_alone() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.append_attempts(&[attempt(1)]).await.unwrap();
    let commits = scratch.commits();
    let held = BlockedWriter::new(&scratch.path());
    let (one, bad) = (new_runs(1), [attempt(2), attempt(1)]);
    let mut before: Vec<_> = (0..20).map(|_| store.submit_runs(&one, at(0))).collect();
    before.iter_mut().for_each(begin);
    let mut failing = store.append_attempts(&bad);
    begin(&mut failing);
    let mut after: Vec<_> = (0..20).map(|_| store.submit_runs(&one, at(0))).collect();
    after.iter_mut().for_each(begin);
    drop(held);

    let error = failing.await.unwrap_err();
    assert!(matches!(error, Error::Misuse { .. }), "{error:?}");
    assert!(error.to_string().contains("attempt 1"), "{error}");
    for call in before.into_iter().chain(after) {
        call.await.unwrap();
    }
    assert!(scratch.commits() - commits <= 2, "they shared a transaction");
    assert_eq!(all_runs(&store).await.len(), 40);
    let ledger =
        store.attempts_of(&UnitRow::new(UnitKind::Item, 1), AttemptNumber(0), 10).await.unwrap();
    assert_eq!(ledger.len(), 1, "nothing of the failed batch is left");
}

#[tokio::test]
async fn a_value_the_schema_refuses_is_not_taken_for_a_number_given_twice() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let odd = AttemptRecord { class: Some("unheard of".to_owned()), ..attempt(1) };
    let error = store.append_attempts(&[odd]).await.unwrap_err();
    let text = told(&error);
    assert!(matches!(error, Error::Database { .. }), "{text}");
    assert!(text.contains("CHECK constraint failed"), "{text}");
    store.append_attempts(&[attempt(1)]).await.unwrap();
}

/// Makes a journal entry with the action `boom` do something to the transaction it is in.
fn plant(scratch: &Scratch, effect: &str) {
    scratch
        .raw()
        .execute_batch(&format!(
            "CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE orphan (
                 id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED
             );
             CREATE TRIGGER boom AFTER INSERT ON journal WHEN NEW.action = 'boom'
             BEGIN {effect}; END;"
        ))
        .unwrap();
}

/// Sends a `boom` among other commands. Returns its error and those of the others.
async fn boom_in_company(scratch: &Scratch, store: &SqliteStore) -> (Error, Vec<Error>) {
    let held = BlockedWriter::new(&scratch.path());
    let (one, boom) = (new_runs(1), [entry("boom")]);
    // The writer may take the first ones by themselves; then the last ones share with the boom.
    let mut before: Vec<_> = (0..20).map(|_| store.submit_runs(&one, at(0))).collect();
    before.iter_mut().for_each(begin);
    let mut failing = store.append_journal(&boom);
    begin(&mut failing);
    let mut after: Vec<_> = (0..20).map(|_| store.submit_runs(&one, at(0))).collect();
    after.iter_mut().for_each(begin);
    drop(held);
    let mut errors = Vec::new();
    for call in before.into_iter().chain(after) {
        errors.extend(call.await.err());
    }
    let written = all_runs(store).await.len();
    assert_eq!(written + errors.len(), 40, "each was told the truth");
    (failing.await.unwrap_err(), errors)
}

// OPS-1
#[tokio::test]
async fn a_commit_that_fails_fails_them_all_and_the_next_works() {
    let scratch = Scratch::new();
    let store = scratch.open();
    plant(&scratch, "INSERT INTO orphan VALUES (7)");
    let (error, others) = boom_in_company(&scratch, &store).await;
    for error in others.iter().chain([&error]) {
        let text = told(error);
        assert!(text.contains("FOREIGN KEY constraint failed"), "{text}");
        assert!(text.contains(scratch.path().to_str().unwrap()), "{text}");
    }
    assert!(!others.is_empty());
    assert_eq!(journal_length(&store).await, 0);

    let alone = store.append_journal(&[entry("boom")]).await.unwrap_err();
    assert!(told(&alone).contains("FOREIGN KEY"), "{alone}");
    submit(&store, 1).await;
    store.append_journal(&[entry("quiet")]).await.unwrap();
    assert_eq!(journal_length(&store).await, 1);
}

/// A full disk or a failing one may end the whole transaction in the middle of a command. The others
/// lost their writes by no fault of theirs, and are told that they may try again.
// OPS-1
#[tokio::test]
async fn a_transaction_that_a_command_ends_is_lost_for_all_and_the_next_works() {
    let scratch = Scratch::new();
    let store = scratch.open();
    plant(&scratch, "SELECT RAISE(ROLLBACK, 'the disk is on fire')");
    let (error, others) = boom_in_company(&scratch, &store).await;
    assert!(told(&error).contains("on fire"), "{error}");
    assert!(!others.is_empty());
    for error in &others {
        assert!(error.is_transient(), "{error:?}");
        let text = told(error);
        assert!(text.contains("on fire"), "the cause: {text}");
    }
    submit(&store, 1).await;
    let alone = store.append_journal(&[entry("boom")]).await.unwrap_err();
    assert!(told(&alone).contains("on fire"), "{alone}");
    store.append_journal(&[entry("quiet")]).await.unwrap();
    assert_eq!(journal_length(&store).await, 1);
}
