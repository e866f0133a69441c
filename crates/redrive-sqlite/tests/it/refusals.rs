//! Files that are not ours, or no longer whole: refused, with what is wrong and what to do, and left
//! as they are.

use std::{fs, os::unix::fs::symlink, process::Command};

use redrive_core::RunId;
use redrive_sqlite::{SqliteOptions, SqliteStore};
use redrive_store::{
    Error, Journal as _, JournalFilter, Migrator as _, Runs as _, Selection, Store as _,
};

use crate::scratch::{Scratch, all_runs, at, claim, entry, submit, told};

/// Tries every way in. Each must be refused with these words and the path, and change nothing.
#[track_caller]
fn check(scratch: &Scratch, words: &[&str]) {
    let before = scratch.snapshot();
    let path = scratch.path();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let migrator = scratch.migrator();
    let existing = SqliteStore::open_existing(scratch.location(), SqliteOptions::default());
    let refusals = [
        scratch.try_open().err(),
        existing.err(),
        runtime.block_on(migrator.status()).err(),
        runtime.block_on(migrator.migrate_to(0, at(0))).err(),
    ];
    for refusal in refusals {
        let error = refusal.expect("refused");
        assert!(matches!(error, Error::NotOurs { .. } | Error::Refused { .. }), "{error:?}");
        assert!(!error.is_transient());
        let text = told(&error);
        for word in words.iter().copied().chain(path.to_str()) {
            assert!(text.contains(word), "{word:?} is missing: {text}");
        }
    }
    assert!(scratch.snapshot() == before, "something changed");
}

// OPS-1
#[test]
fn an_empty_file_is_refused() {
    let scratch = Scratch::new();
    fs::write(scratch.path(), "").unwrap();
    check(&scratch, &["empty", "nothing was changed", "Restore a backup", "remove the file"]);
}

// OPS-1
#[test]
fn a_file_that_is_no_database_is_refused() {
    for bytes in [
        b"hello".to_vec(),
        vec![0; 4096],
        vec![0xff; 100_000],
        b"SQLite format 3\0".to_vec(),
        b"SQLite format 2\0".repeat(400),
    ] {
        let scratch = Scratch::new();
        fs::write(scratch.path(), bytes).unwrap();
        check(&scratch, &["not an SQLite database", "nothing was changed", "name another file"]);
    }
}

// OPS-1
#[test]
fn a_database_of_another_program_is_refused() {
    for (journal_mode, in_use) in [("delete", false), ("wal", false), ("wal", true)] {
        let scratch = Scratch::new();
        let theirs = scratch.raw();
        theirs.pragma_update(None, "journal_mode", journal_mode).unwrap();
        theirs
            .execute_batch("CREATE TABLE runs (id INTEGER); INSERT INTO runs VALUES (1)")
            .unwrap();
        if in_use {
            // The log holds what the file lacks.
            check(&scratch.crashed(), &["another program", "nothing was changed"]);
        }
        drop(theirs);
        check(&scratch, &["another program", "nothing was changed", "Name another file"]);
        let left: i64 =
            scratch.raw().query_row("SELECT count(*) FROM runs", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 1);
    }
}

/// A database with enough in it to have pages worth damaging.
async fn filled() -> Scratch {
    let scratch = Scratch::new();
    let store = scratch.open();
    submit(&store, 2_000).await;
    store.append_journal(&vec![entry("a.b"); 2_000]).await.unwrap();
    drop(store);
    scratch
}

// OPS-1
#[tokio::test]
async fn a_truncated_database_is_refused() {
    let whole = fs::read(filled().await.path()).unwrap();
    tokio::task::spawn_blocking(move || {
        for length in [whole.len() - 1, whole.len() / 2, 4096, 512, 100] {
            let scratch = Scratch::new();
            fs::write(scratch.path(), &whole[..length]).unwrap();
            check(&scratch, &["nothing was changed", "backup", ".recover"]);
        }
    })
    .await
    .unwrap();
}

// OPS-1
#[tokio::test]
async fn a_database_whose_first_page_is_damaged_is_refused() {
    let whole = fs::read(filled().await.path()).unwrap();
    tokio::task::spawn_blocking(move || {
        // The size of a page, the kind of the page, its cells.
        for range in [16..18, 100..112, 200..4096] {
            let scratch = Scratch::new();
            let mut bytes = whole.clone();
            bytes[range].fill(0xee);
            fs::write(scratch.path(), &bytes).unwrap();
            check(&scratch, &["nothing was changed", "backup", ".recover"]);
        }
    })
    .await
    .unwrap();
}

/// The pages on which tables and indexes begin.
fn first_pages(scratch: &Scratch) -> Vec<usize> {
    let sql = "SELECT rootpage FROM sqlite_master WHERE rootpage > 0";
    let connection = scratch.raw();
    let mut statement = connection.prepare(sql).unwrap();
    let pages = statement.query_map([], |row| row.get(0)).unwrap();
    pages.map(Result::unwrap).collect()
}

/// Overwrites pages, but never the first, of a database that is closed.
fn damage(scratch: &Scratch, mut chosen: impl FnMut(usize, &[u8]) -> bool) {
    let mut bytes = fs::read(scratch.path()).unwrap();
    for (n, page) in bytes.chunks_mut(4096).enumerate().skip(1) {
        if chosen(n + 1, page) {
            page.fill(0xee);
        }
    }
    fs::write(scratch.path(), &bytes).unwrap();
}

// OPS-1
#[tokio::test]
async fn a_database_whose_tables_cannot_be_read_is_refused() {
    let scratch = filled().await;
    let first = first_pages(&scratch);
    damage(&scratch, |page, _| first.contains(&page));
    let before = scratch.snapshot();
    let error = scratch.try_open().err().expect("refused");
    let text = told(&error);
    for word in ["damaged", "nothing was changed", ".recover"] {
        assert!(text.contains(word), "{word:?} is missing: {text}");
    }
    assert!(scratch.snapshot() == before, "something changed");
}

/// Damage deep inside cannot be seen without reading everything, so it shows where it is met.
// OPS-1
#[tokio::test]
async fn damage_inside_is_told_when_it_is_met_and_a_command_that_meets_it_changes_nothing() {
    let scratch = filled().await;
    let first = first_pages(&scratch);
    let holds = |page: &[u8], text: &[u8]| page.windows(text.len()).any(|part| part == text);
    let mut pages_with = [b"{\"n\":1}".as_slice(), b"operator"].map(|text| (text, 0));
    damage(&scratch, |number, page| {
        let mut kinds = pages_with.iter_mut();
        let kind = kinds.find(|(text, _)| !first.contains(&number) && holds(page, text));
        kind.is_some_and(|(_, seen)| {
            *seen += 1;
            // The start reads the first rows.
            *seen > 1
        })
    });
    let before = scratch.snapshot();

    let store = scratch.open();
    let everything = JournalFilter::default();
    let met = [
        store.runs_page(&Selection::default(), RunId(0), 10_000.into()).await.unwrap_err(),
        store.claim_runs(&claim(2_000)).await.unwrap_err(),
        store.journal_page(&everything, 0, 10_000).await.unwrap_err(),
    ];
    for error in met {
        assert!(matches!(error, Error::NotOurs { .. }), "{error:?}");
        assert!(!error.is_transient());
        let text = told(&error);
        for word in ["damaged", scratch.path().to_str().unwrap(), ".recover"] {
            assert!(text.contains(word), "{word:?} is missing: {text}");
        }
    }
    drop(store);
    assert!(scratch.snapshot() == before, "something changed");
}

// OPS-1
#[tokio::test]
async fn damage_that_stops_nobody_is_found_by_the_integrity_check() {
    let scratch = filled().await;
    scratch
        .raw()
        .execute_batch(
            "PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE name = 'runs_due'",
        )
        .unwrap();
    let problems = scratch.open().integrity_problems().await.unwrap();
    assert!(problems.iter().any(|line| line.contains("never used")), "{problems:?}");
}

// OPS-1
#[test]
fn what_is_no_file_is_refused() {
    let folder = Scratch::new();
    fs::create_dir(folder.path()).unwrap();
    check(&folder, &["it is a folder", "name a file"]);

    let pipe = Scratch::new();
    let made = Command::new("mkfifo").arg(pipe.path()).status().unwrap();
    assert!(made.success());
    check_without_snapshot(&pipe, "a device or a pipe");

    let device = Scratch::new();
    symlink("/dev/null", device.path()).unwrap();
    check_without_snapshot(&device, "a device or a pipe");
}

/// Reading a pipe for a snapshot would wait for ever.
#[track_caller]
fn check_without_snapshot(scratch: &Scratch, word: &str) {
    let text = told(&scratch.try_open().err().expect("refused"));
    assert!(text.contains(word) && text.contains("name a file"), "{text}");
}

// OPS-1
#[test]
fn a_missing_folder_is_refused_and_not_made() {
    let scratch = Scratch::new();
    let path = scratch.folder().join("no/such/store.db");
    let location = redrive_sqlite::Location::File(path.clone());
    let opened = SqliteStore::open(location, SqliteOptions::default(), at(0));
    let text = told(&opened.err().expect("refused"));
    for word in [path.to_str().unwrap(), "does not exist", "create it first"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(scratch.snapshot().is_empty());
}

// OPS-1
#[test]
fn a_link_to_nowhere_is_refused_and_not_followed() {
    let scratch = Scratch::new();
    symlink(scratch.folder().join("nowhere"), scratch.path()).unwrap();
    let text = told(&scratch.try_open().err().expect("refused"));
    assert!(text.contains(scratch.path().to_str().unwrap()), "{text}");
    assert_eq!(scratch.snapshot().len(), 1, "only the link is there");
}

/// What a crash left in the log belongs to the database, however short the file itself is.
// OPS-6
#[tokio::test]
async fn a_database_that_lives_in_its_log_is_not_taken_for_a_truncated_one() {
    let scratch = Scratch::new();
    let store = scratch.open();
    submit(&store, 500).await;
    let crashed = scratch.crashed();
    drop(store);
    assert_eq!(all_runs(&crashed.open()).await.len(), 500);
}
