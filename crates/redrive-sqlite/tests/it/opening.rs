//! Opening what is there.

use std::{fs, os::unix::fs::MetadataExt as _};

use redrive_sqlite::{SqliteOptions, SqliteStore, SqliteSync};
use redrive_store::{Error, Migrator as _, Runs as _, Store as _};

use crate::{
    child,
    scratch::{Scratch, all_runs, at, claim, submit},
};

// OPS-1
#[tokio::test]
async fn a_store_that_is_dropped_leaves_one_file() {
    let scratch = Scratch::new();
    let store = scratch.open();
    submit(&store, 3).await;
    all_runs(&store).await;
    assert!(scratch.wal_path().exists());
    drop(store);
    assert_eq!(Vec::from_iter(scratch.snapshot().into_keys()), ["store.db"]);
    assert_eq!(all_runs(&scratch.open()).await.len(), 3);
}

/// Whether this process holds SQLite's shared lock on the database, as the kernel sees it.
fn is_locked(scratch: &Scratch) -> bool {
    const SHARED_FIRST: &str = "1073741826";
    let process = std::process::id().to_string();
    let inode = format!(":{}", fs::metadata(scratch.path()).unwrap().ino());
    let listed = || {
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        locks.lines().any(|line| {
            let fields = Vec::from_iter(line.split_whitespace());
            let on_file = fields.iter().any(|field| field.ends_with(&inode));
            on_file && fields.contains(&process.as_str()) && fields.contains(&SHARED_FIRST)
        })
    };
    // While others lock and unlock, a line may be missing from the list.
    (0..100).any(|_| listed())
}

/// On POSIX, closing any handle of a file drops all locks of the process on it. A store that lost its
/// lock that way would see its log deleted by the next program to leave, and its commits with it.
// OPS-1
#[tokio::test]
async fn opening_a_file_twice_in_one_process_keeps_the_locks_of_the_first() {
    let scratch = Scratch::new();
    let first = scratch.open();
    submit(&first, 1).await;
    let locked = is_locked(&scratch);
    drop(scratch.open());
    scratch.migrator().status().await.unwrap();
    assert_eq!(is_locked(&scratch), locked);
    if !locked {
        eprintln!("the locks were not looked at: the kernel does not show them here");
    }

    child::play("open and close", &scratch.path());
    assert!(scratch.wal_path().exists(), "the log is in use");
    submit(&first, 1).await;
    assert_eq!(child::play("count", &scratch.path()), ["2"]);
}

// OPS-1
#[tokio::test]
async fn opening_an_existing_database_asks_for_the_newest_schema_and_makes_nothing() {
    let existing = |scratch: &Scratch| {
        SqliteStore::open_existing(scratch.location(), SqliteOptions::default())
    };
    let scratch = Scratch::new();
    let error = existing(&scratch).err().unwrap();
    assert!(error.to_string().contains("redrive db migrate"), "{error}");
    assert!(scratch.snapshot().is_empty());

    scratch.migrator().migrate_to(1, at(0)).await.unwrap();
    let before = scratch.snapshot();
    let error = existing(&scratch).err().unwrap();
    assert!(matches!(error, Error::OlderSchema { found: 1, .. }), "{error}");
    assert_eq!(scratch.snapshot(), before);

    drop(scratch.open());
    submit(&existing(&scratch).unwrap(), 1).await;
}

// OPS-1
#[tokio::test]
async fn a_database_opens_while_another_program_writes() {
    let scratch = Scratch::migrated();
    let raw = scratch.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = scratch.open();
    assert_eq!(all_runs(&store).await, [], "opening takes no write lock");
    raw.execute_batch("ROLLBACK").unwrap();
}

#[tokio::test]
async fn paths_are_data() {
    let scratch = Scratch::new();
    for name in ["a b.db", "50%.db", "x?mode=memory", "#1", "käse", "file:x", "a'b"] {
        let path = scratch.folder().join(name);
        let location = redrive_sqlite::Location::File(path.clone());
        for expected in [1, 2] {
            let options = SqliteOptions::default();
            let store = SqliteStore::open(location.clone(), options, at(0)).unwrap();
            submit(&store, 1).await;
            assert_eq!(all_runs(&store).await.len(), expected, "{name}");
            let copy = scratch.folder().join(format!("{name} {expected}"));
            store.backup(&copy).await.unwrap();
            assert_eq!(child::count_runs(&copy), expected as u64, "{name}");
        }
        assert!(path.is_file(), "{name}");
    }
}

#[tokio::test]
async fn a_store_is_found_through_a_link() {
    let scratch = Scratch::new();
    let link = scratch.folder().join("link.db");
    submit(&scratch.open(), 1).await;
    std::os::unix::fs::symlink(scratch.path(), &link).unwrap();
    let linked = redrive_sqlite::Location::File(link);
    let store = SqliteStore::open(linked, SqliteOptions::default(), at(0)).unwrap();
    let direct = scratch.open();
    submit(&store, 1).await;
    assert_eq!(all_runs(&direct).await.len(), 2);
}

#[tokio::test]
async fn a_store_that_does_not_wait_for_the_disk_does_the_same() {
    let scratch = Scratch::new();
    let options = SqliteOptions { synchronous: SqliteSync::Normal, ..SqliteOptions::default() };
    let store = SqliteStore::open(scratch.location(), options, at(0)).unwrap();
    submit(&store, 3).await;
    assert_eq!(store.claim_runs(&claim(10)).await.unwrap().len(), 3);
    let described = store.describe();
    assert!(described.contains(scratch.path().to_str().unwrap()), "{described}");
    store.ping().await.unwrap();
}
