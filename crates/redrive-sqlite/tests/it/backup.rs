//! Copies of a store that is in use.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{Error, Store as _};

use crate::scratch::{Scratch, all_runs, at, begun, submit, told};

// OPS-8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_made_while_writing_is_whole_and_opens_as_a_store() {
    let scratch = Scratch::new();
    let store = Arc::new(scratch.open());
    submit(&store, 3).await;
    let enough = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let (store, enough) = (Arc::clone(&store), Arc::clone(&enough));
        async move {
            while !enough.load(Ordering::Relaxed) {
                submit(&store, 3).await;
            }
        }
    });
    let mut last = 0;
    for _ in 0..5 {
        let before = all_runs(&store).await.len();
        let copy = Scratch::new();
        store.backup(&copy.path()).await.unwrap();
        assert_eq!(Vec::from_iter(copy.snapshot().into_keys()), ["store.db"]);

        let copied = copy.open();
        let runs = all_runs(&copied).await;
        assert!(runs.len() >= before && runs.len() >= last);
        assert_eq!(runs.len() % 3, 0, "no half of a batch");
        let numbers = Vec::from_iter(runs.iter().map(|id| id.0 as usize));
        assert_eq!(numbers, Vec::from_iter(1..=runs.len()), "without gaps");
        assert_eq!(copied.integrity_problems().await.unwrap(), [""; 0]);
        submit(&copied, 1).await;
        last = runs.len();
    }
    enough.store(true, Ordering::Relaxed);
    writing.await.unwrap();
}

// OPS-8
#[tokio::test]
async fn a_backup_of_an_inline_store_needs_no_thread() {
    let scratch = Scratch::new();
    let store = scratch.open_inline();
    submit(&store, 3).await;
    let copy = Scratch::new();
    let target = copy.path();
    let mut call = Box::pin(store.backup(&target));
    let polled = begun(call.as_mut());
    assert!(matches!(polled, std::task::Poll::Ready(Ok(()))));
    assert_eq!(all_runs(&copy.open()).await.len(), 3);
}

// OPS-8
#[tokio::test]
async fn a_backup_does_not_take_the_place_of_a_file() {
    let (scratch, copy) = (Scratch::new(), Scratch::new());
    let store = scratch.open();
    fs::write(copy.path(), "precious").unwrap();
    let nowhere = copy.folder().join("link");
    std::os::unix::fs::symlink(copy.folder().join("nowhere"), &nowhere).unwrap();
    let before = copy.snapshot();
    for target in [copy.path(), nowhere, copy.folder().to_owned(), scratch.path()] {
        let error = store.backup(&target).await.unwrap_err();
        let text = told(&error);
        for word in ["exists already", "name a new one", target.to_str().unwrap()] {
            assert!(text.contains(word), "{text}");
        }
    }
    assert_eq!(copy.snapshot(), before);
}

// OPS-8
#[tokio::test]
async fn a_backup_into_a_missing_folder_is_refused() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let target = scratch.folder().join("no/such/copy.db");
    let error = store.backup(&target).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    let text = told(&error);
    for word in [target.to_str().unwrap(), "does not exist", "create it first"] {
        assert!(text.contains(word), "{text}");
    }
}

// OPS-8
#[tokio::test]
async fn a_database_in_memory_cannot_be_backed_up() {
    let store = SqliteStore::open(Location::Memory, SqliteOptions::default(), at(0)).unwrap();
    let copy = Scratch::new();
    let error = store.backup(&copy.path()).await.unwrap_err();
    assert!(error.to_string().contains("in memory"), "{error}");
    assert!(copy.snapshot().is_empty());
}

// OPS-8
#[tokio::test]
async fn a_backup_that_fails_leaves_nothing() {
    let (scratch, copy) = (Scratch::new(), Scratch::new());
    let store = scratch.open();
    submit(&store, 3).await;
    scratch
        .raw()
        .execute_batch(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_master SET rootpage = (
                 SELECT rootpage FROM sqlite_master WHERE name = 'journal'
             ) WHERE name = 'runs_ready'",
        )
        .unwrap();
    let error = store.backup(&copy.path()).await.unwrap_err();
    assert!(told(&error).contains("copying"), "{error}");
    assert!(copy.snapshot().is_empty());
}
