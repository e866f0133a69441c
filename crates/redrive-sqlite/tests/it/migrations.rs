//! Moving the schema up and down.

use std::{collections::BTreeMap, fs, sync::Barrier, thread};

use redrive_core::ItemId;
use redrive_sqlite::MIGRATIONS;
use redrive_store::{
    Direction, Error, ItemGroup, Items as _, Journal as _, JournalFilter, Migrator as _, Store as _,
};

use crate::{
    child::ChildProcess,
    schema::declared,
    scratch::{Scratch, all_runs, at, entry, submit, told},
};

const LATEST: u32 = MIGRATIONS.len() as u32;

fn versions(status: &redrive_store::SchemaStatus) -> Vec<u32> {
    status.applied.iter().map(|m| m.version).collect()
}

// OPS-2
#[test]
fn migrations_are_numbered_without_gaps_and_named_alike_in_their_files() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut expected = Vec::new();
    for (n, migration) in MIGRATIONS.iter().enumerate() {
        assert_eq!(migration.version as usize, n + 1);
        for direction in ["down", "up"] {
            let (version, name) = (migration.version, migration.name);
            expected.push(format!("{version:04}_{name}.{direction}.sql"));
        }
    }
    let mut files: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, expected);
}

// OPS-2
#[tokio::test]
async fn every_step_down_leads_back_to_the_schema_before_its_step_up() {
    let scratch = Scratch::new();
    let migrator = scratch.migrator();
    let mut before = BTreeMap::new();
    for version in 1..=LATEST {
        let steps = migrator.migrate_to(version, at(0)).await.unwrap();
        assert_eq!(steps.len(), 1);
        before.insert(version, declared(&scratch.raw()));
    }
    for version in (1..LATEST).rev() {
        let steps = migrator.migrate_to(version, at(0)).await.unwrap();
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].direction, Direction::Down);
        assert_eq!(declared(&scratch.raw()), before[&version]);
    }
    migrator.migrate_to(LATEST, at(0)).await.unwrap();
    assert_eq!(declared(&scratch.raw()), before[&LATEST]);
}

/// A process that goes on after a rollback is not ready for anything.
// OPS-2
#[tokio::test]
async fn a_store_that_was_rolled_back_meanwhile_does_not_answer_that_all_is_well() {
    let scratch = Scratch::migrated();
    let store = scratch.open();
    store.ping().await.unwrap();
    scratch.migrator().migrate_to(0, at(0)).await.unwrap();
    let error = store.ping().await.unwrap_err();
    assert!(matches!(error, Error::OlderSchema { found: 0, needed: LATEST }), "{error}");
}

// OPS-2
#[tokio::test]
async fn status_tells_which_migrations_there_are_and_since_when() {
    let scratch = Scratch::new();
    let migrator = scratch.migrator();
    assert_eq!(migrator.status().await.unwrap().current(), 0);
    assert!(!scratch.path().exists(), "asking makes no file");

    migrator.migrate_to(1, at(10)).await.unwrap();
    migrator.migrate_to(LATEST, at(20)).await.unwrap();
    let before = scratch.snapshot();
    let status = migrator.status().await.unwrap();
    assert_eq!(versions(&status), Vec::from_iter(1..=LATEST));
    assert_eq!(status.applied[0].name, "runs_items_attempts_journal");
    assert_eq!(status.applied[0].applied_at, at(10));
    assert_eq!(status.applied[1].applied_at, at(20));
    assert_eq!(scratch.snapshot(), before, "asking changes nothing");

    migrator.migrate_to(1, at(30)).await.unwrap();
    assert_eq!(versions(&migrator.status().await.unwrap()), [1]);
}

// OPS-2
#[tokio::test]
async fn a_database_goes_down_to_nothing_and_up_again() {
    let scratch = Scratch::new();
    submit(&scratch.open(), 3).await;
    let migrator = scratch.migrator();
    let steps = migrator.migrate_to(0, at(0)).await.unwrap();
    assert_eq!(steps.len(), LATEST as usize);
    assert_eq!(migrator.status().await.unwrap().current(), 0);

    let again = migrator.migrate_to(LATEST, at(0)).await.unwrap();
    assert_eq!(again.len(), LATEST as usize);
    let store = scratch.open();
    assert_eq!(all_runs(&store).await, []);
    submit(&store, 1).await;
    assert_eq!(store.integrity_problems().await.unwrap(), [""; 0]);
}

// OPS-2, PAR-11
#[tokio::test]
async fn partitions_made_after_a_rollback_do_not_take_over_old_attempts() {
    let scratch = Scratch::migrated();
    let insert = "INSERT INTO attempts
        (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
        VALUES ('partition', 41, 1, 1, 0, 0, 'failed', 'w')";
    scratch.raw().execute_batch(insert).unwrap();
    scratch.migrator().migrate_to(2, at(0)).await.unwrap();
    scratch.migrator().migrate_to(LATEST, at(0)).await.unwrap();
    let insert = "INSERT INTO partition_state
        (source, customer_id, query_name, logical_date, updated_at)
        VALUES ('s', 'c', 'q', '2026-03-01', 0) RETURNING id";
    let id: i64 = scratch.raw().query_row(insert, [], |row| row.get(0)).unwrap();
    assert_eq!(id, 42);
}

// OPS-2, PIP-4
#[tokio::test]
async fn samples_made_after_a_rollback_do_not_take_over_old_attempts() {
    let scratch = Scratch::migrated();
    let insert = "INSERT INTO attempts
        (kind, unit_id, stage, attempt, counted, started_at, ended_at, outcome, worker)
        VALUES ('sample', 41, 'a', 1, 1, 0, 0, 'failed', 'w')";
    scratch.raw().execute_batch(insert).unwrap();
    scratch.migrator().migrate_to(4, at(0)).await.unwrap();
    scratch.migrator().migrate_to(LATEST, at(0)).await.unwrap();
    let run = "INSERT INTO pipeline_runs
        (pipeline, stages, rules, read_ahead, source, started_at, started_by)
        VALUES ('p', '[\"a\"]', '{}', 1, 's', 0, 'me')";
    scratch.raw().execute_batch(run).unwrap();
    let insert = "INSERT INTO samples (run_id, line, data) VALUES (1, 1, '{}') RETURNING id";
    let id: i64 = scratch.raw().query_row(insert, [], |row| row.get(0)).unwrap();
    assert_eq!(id, 42);
}

// UPL-4, UPL-9
#[tokio::test]
async fn ac_8_the_upload_attempts_come_in_a_migration_of_their_own_and_start_at_zero() {
    let first = MIGRATIONS[0];
    assert!(!first.up.contains("upload_attempts"), "0001 is not edited");

    let scratch = Scratch::new();
    let migrator = scratch.migrator();
    migrator.migrate_to(1, at(0)).await.unwrap();
    scratch
        .raw()
        .execute_batch(
            "INSERT INTO items (upload, group_name, name, content_url, size_bytes, sha256, updated_at)
             VALUES ('u', 'g', 'a', 'file:a', 1, '', 0), ('u', 'g', 'b', 'file:b', 1, '', 0)",
        )
        .unwrap();
    let group = ItemGroup { upload: "u".to_owned(), group: "g".to_owned() };
    for _ in 0..2 {
        let store = scratch.open();
        let items = store.pending_items(&group, ItemId(0), 10).await.unwrap();
        let counts: Vec<u32> = items.iter().map(|item| item.upload_attempts).collect();
        assert_eq!(counts, [0, 0]);
        let counted = store.increment_upload_attempts(items[0].id).await.unwrap();
        assert_eq!(counted, Some(1));
        drop(store);

        migrator.migrate_to(1, at(0)).await.unwrap();
        let left: i64 =
            scratch.raw().query_row("SELECT count(*) FROM items", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 2, "rolling back takes the column, not the items");
        let column = "SELECT upload_attempts FROM items";
        assert!(scratch.raw().prepare(column).is_err());
    }
}

// OPS-2
#[tokio::test]
async fn items_go_on_with_their_numbers_after_a_rollback() {
    let scratch = Scratch::migrated();
    scratch
        .raw()
        .execute_batch(
            "INSERT INTO items (upload, group_name, name, content_url, size_bytes, sha256, updated_at)
             VALUES ('u', 'g', 'a', 'file:a', 1, '', 0), ('u', 'g', 'b', 'file:b', 1, '', 0);
             INSERT INTO attempts (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
             VALUES ('item', 1, 1, 1, 0, 0, 'retrying', 'w'), ('item', 1, 2, 1, 0, 0, 'success', 'w')",
        )
        .unwrap();
    scratch.migrator().migrate_to(3, at(0)).await.unwrap();
    scratch.migrator().migrate_to(LATEST, at(0)).await.unwrap();
    let items = scratch.open().items_by_id(&[ItemId(1), ItemId(2)]).await.unwrap();
    assert_eq!(items.iter().map(|item| item.last_attempt.0).collect::<Vec<_>>(), [2, 0]);
}

// OPS-2
#[tokio::test]
async fn rewritten_checks_give_out_no_id_twice_and_still_refuse() {
    let scratch = Scratch::migrated();
    let insert = "INSERT INTO items
        (upload, group_name, name, content_url, size_bytes, sha256, updated_at)
        VALUES ('u', 'g', ?1, 'file:a', 1, '', 0) RETURNING id";
    let add =
        |name: &str| -> i64 { scratch.raw().query_row(insert, [name], |row| row.get(0)).unwrap() };
    assert_eq!(["a", "b", "c"].map(add), [1, 2, 3]);
    scratch.raw().execute("DELETE FROM items WHERE id = 3", []).unwrap();
    for version in [4, LATEST] {
        scratch.migrator().migrate_to(version, at(0)).await.unwrap();
        let wrong = "UPDATE items SET status = 'lost' WHERE id = 1";
        assert!(scratch.raw().execute(wrong, []).is_err());
    }
    assert_eq!(add("d"), 4);
}

// OPS-2, CAU-2
#[tokio::test]
async fn failures_of_before_are_counted_at_the_stage_where_they_were() {
    let scratch = Scratch::migrated();
    scratch.migrator().migrate_to(12, at(0)).await.unwrap();
    scratch
        .raw()
        .execute_batch(
            "INSERT INTO pipeline_runs (pipeline, stages, rules, read_ahead, source, started_at, started_by)
                VALUES ('p', '[\"a\",\"b\"]', '{}', 1, 's', 0, 'me');
            INSERT INTO samples (run_id, line, data, stage, claim_stage) VALUES (1, 1, '{}', 1, 1);
            INSERT INTO attempts (kind, unit_id, stage, attempt, counted, started_at, ended_at, outcome, class,
                code, message, fingerprint, cause, delay_us, worker)
                VALUES ('sample', 1, 'a', 1, 1, 0, 0, 'retrying', 'retryable', '503', 'busy', 'f', 'handler', 0, 'w')",
        )
        .unwrap();
    scratch.migrator().migrate_to(LATEST, at(0)).await.unwrap();
    let place: String =
        scratch.raw().query_row("SELECT place FROM cause_hours", [], |row| row.get(0)).unwrap();
    assert_eq!(place, "p/a");
}

// OPS-2
#[tokio::test]
async fn rows_survive_the_way_down_and_up() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let ids = submit(&store, 5).await;
    store.append_journal(&[entry("a.b")]).await.unwrap();
    drop(store);
    scratch.migrator().migrate_to(1, at(0)).await.unwrap();
    let store = scratch.open();
    assert_eq!(all_runs(&store).await, ids);
    let journal = store.journal_page(&JournalFilter::default(), 0, 10).await;
    assert_eq!(journal.unwrap().len(), 1);
}

// OPS-2
#[tokio::test]
async fn neither_an_unknown_version_nor_rolling_back_nothing_makes_a_file() {
    let scratch = Scratch::new();
    let error = scratch.migrator().migrate_to(LATEST + 1, at(0)).await.unwrap_err();
    assert!(matches!(error, Error::UnknownVersion { .. }), "{error}");
    let nothing = scratch.migrator().migrate_to(0, at(0)).await.unwrap();
    assert!(nothing.is_empty());
    assert!(scratch.snapshot().is_empty());
}

/// Makes a database that a newer program has migrated.
fn newer(scratch: &Scratch) {
    scratch
        .raw()
        .execute("INSERT INTO schema_migrations VALUES (?1, 'from_the_future', 0)", [LATEST + 1])
        .unwrap();
}

// OPS-2
#[tokio::test]
async fn a_newer_database_is_refused_and_nothing_changes() {
    let live = Scratch::migrated();
    newer(&live);
    // A restored backup has no log yet; even that must stay so.
    let restored = Scratch::migrated();
    newer(&restored);
    let pragma = "PRAGMA journal_mode = delete";
    restored.raw().query_row(pragma, [], |_| Ok(())).unwrap();

    for scratch in [live, restored] {
        let before = scratch.snapshot();
        let opened = scratch.try_open().err().unwrap();
        let existing = redrive_sqlite::SqliteStore::open_existing(
            scratch.location(),
            redrive_sqlite::SqliteOptions::default(),
        );
        let migrated = scratch.migrator().migrate_to(0, at(0)).await.unwrap_err();
        for error in [opened, existing.err().unwrap(), migrated] {
            let found = LATEST + 1;
            assert!(
                matches!(error, Error::NewerSchema { found: f, known: LATEST } if f == found),
                "{error}"
            );
            assert!(told(&error).contains("use a newer redrive"), "{error}");
        }
        assert_eq!(scratch.snapshot(), before);
    }
}

// OPS-2
#[tokio::test]
async fn a_migration_that_fails_leaves_nothing_of_itself() {
    let scratch = Scratch::new();
    let migrator = scratch.migrator();
    migrator.migrate_to(1, at(0)).await.unwrap();
    // The second statement of 0002 will find its column taken.
    let taken = "ALTER TABLE items ADD COLUMN attempts_at_reset INTEGER";
    scratch.raw().execute_batch(taken).unwrap();
    let before = scratch.snapshot();

    let error = migrator.migrate_to(LATEST, at(0)).await.unwrap_err();
    let text = told(&error);
    assert!(text.contains("migration 0002 upload_attempts"), "{text}");
    assert!(text.contains("attempts_at_reset"), "the cause: {text}");
    assert!(text.contains(scratch.path().to_str().unwrap()), "{text}");
    assert_eq!(scratch.snapshot(), before);
    assert_eq!(migrator.status().await.unwrap().current(), 1);
}

/// Does the same on many threads at once.
fn at_once<T: Send>(work: impl Fn() -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(12);
    thread::scope(|scope| {
        let started: Vec<_> = (0..12)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    work()
                })
            })
            .collect();
        started.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

// OPS-2
#[test]
fn many_migrating_at_once_do_each_step_once() {
    for _ in 0..5 {
        let scratch = Scratch::new();
        let runtime = || tokio::runtime::Builder::new_current_thread().build();
        let steps = at_once(|| {
            let migrating = async { scratch.migrator().migrate_to(LATEST, at(0)).await };
            runtime().unwrap().block_on(migrating).unwrap().len()
        });
        assert_eq!(steps.iter().sum::<usize>(), LATEST as usize, "{steps:?}");
    }
}

// OPS-2
#[tokio::test]
async fn many_opening_a_file_that_is_not_there_end_with_one_whole_database() {
    for _ in 0..5 {
        let scratch = Scratch::new();
        let stores = at_once(|| scratch.open());
        for store in &stores {
            submit(store, 1).await;
        }
        for store in &stores {
            assert_eq!(all_runs(store).await.len(), stores.len());
        }
        assert_eq!(stores[0].integrity_problems().await.unwrap(), [""; 0]);
        drop(stores);
        assert_eq!(Vec::from_iter(scratch.snapshot().into_keys()), ["store.db"]);
    }
}

// OPS-1, OPS-2
#[test]
fn processes_opening_a_file_that_is_not_there_end_with_one_whole_database() {
    let scratch = Scratch::new();
    let started = [(); 6].map(|()| ChildProcess::start("submit 100", &scratch.path()));
    for playing in started {
        assert_eq!(playing.finish().len(), 100);
    }
    let names = Vec::from_iter(scratch.snapshot().into_keys());
    assert_eq!(names, ["store.db"], "nothing is left beside it");
    assert_eq!(crate::child::count_runs(&scratch.path()), 600);
}

// OPS-2
#[tokio::test]
async fn many_opening_a_restored_backup_at_once_all_get_in() {
    let scratch = Scratch::new();
    let store = scratch.open();
    submit(&store, 1).await;
    let copy = Scratch::new();
    store.backup(&copy.path()).await.unwrap();
    let stores = at_once(|| copy.open());
    for store in &stores {
        assert_eq!(all_runs(store).await.len(), 1);
    }
}
