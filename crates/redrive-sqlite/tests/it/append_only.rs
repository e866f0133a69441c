//! The ledger and the journal only grow, whoever is connected and however he tries.

use redrive_store::{Journal as _, JournalFilter, Runs as _};
use rusqlite::Connection;

use crate::scratch::{Scratch, at, claim, entry, passed, submit};

/// As a foreign program connects, and as the store itself does.
fn connections(scratch: &Scratch) -> [Connection; 2] {
    let ours = scratch.raw();
    ours.pragma_update(None, "foreign_keys", true).unwrap();
    [scratch.raw(), ours]
}

async fn with_one_row_each() -> Scratch {
    let scratch = Scratch::new();
    let store = scratch.open();
    submit(&store, 1).await;
    let claimed = store.claim_runs(&claim(1)).await.unwrap();
    let _ = store.finish_runs(&[passed(&claimed[0])], at(2)).await.unwrap();
    let keyed = redrive_store::JournalEntry { dedupe_key: Some("once".to_owned()), ..entry("a.b") };
    store.append_journal(&[keyed]).await.unwrap();
    drop(store);
    scratch
}

/// Every column of every row of a table.
fn rows(connection: &Connection, table: &str) -> Vec<String> {
    let sql = format!("SELECT * FROM {table} ORDER BY id");
    let mut statement = connection.prepare(&sql).unwrap();
    let width = statement.column_count();
    let read = statement.query_map([], |row| {
        let column = |n| row.get::<_, rusqlite::types::Value>(n);
        (0..width).map(|n| Ok(format!("{:?}", column(n)?))).collect()
    });
    read.unwrap().map(Result::unwrap).collect()
}

// OPS-8
#[tokio::test]
async fn the_ledger_cannot_be_changed() {
    let scratch = with_one_row_each().await;
    let forged = "(id, kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
                  VALUES";
    for connection in connections(&scratch) {
        let before = rows(&connection, "attempts");
        for sql in [
            "UPDATE attempts SET worker = 'x'",
            "UPDATE OR REPLACE attempts SET id = 9",
            "DELETE FROM attempts",
            "DELETE FROM attempts WHERE id = 1",
            &format!("REPLACE INTO attempts {forged} (1, 'item', 7, 1, 1, 0, 0, 'failed', 'x')"),
            &format!("REPLACE INTO attempts {forged} (9, 'run', 1, 1, 1, 0, 0, 'failed', 'x')"),
            &format!("REPLACE INTO attempts {forged} (NULL, 'run', 1, 1, 1, 0, 0, 'failed', 'x')"),
            &format!(
                "INSERT INTO attempts {forged} (1, 'run', 1, 1, 1, 0, 0, 'failed', 'x')
                 ON CONFLICT DO UPDATE SET outcome = 'failed'"
            ),
        ] {
            let error = connection.execute(sql, []).expect_err(sql);
            assert!(error.to_string().contains("append-only"), "{sql}: {error}");
        }
        let below =
            format!("INSERT INTO attempts {forged} (-1, 'run', 1, 2, 1, 0, 0, 'failed', 'x')");
        connection.execute(&below, []).expect_err("ids are positive");
        assert_eq!(rows(&connection, "attempts"), before);
    }
}

// OPS-8
#[tokio::test]
async fn the_journal_cannot_be_changed() {
    let scratch = with_one_row_each().await;
    for connection in connections(&scratch) {
        let before = rows(&connection, "journal");
        for sql in [
            "UPDATE journal SET actor = 'x'",
            "UPDATE OR REPLACE journal SET id = 9",
            "DELETE FROM journal",
            "REPLACE INTO journal (id, at, actor, action) VALUES (1, 0, 'x', 'y')",
            "INSERT INTO journal (id, at, actor, action) VALUES (1, 0, 'x', 'y')
             ON CONFLICT DO UPDATE SET actor = 'x'",
        ] {
            let error = connection.execute(sql, []).expect_err(sql);
            assert!(error.to_string().contains("append-only"), "{sql}: {error}");
        }
        let known =
            "REPLACE INTO journal (at, actor, action, dedupe_key) VALUES (0, 'x', 'y', 'once')";
        assert_eq!(connection.execute(known, []).unwrap(), 0, "it is ignored");
        let below = "INSERT INTO journal (id, at, actor, action) VALUES (-1, 0, 'x', 'y')";
        connection.execute(below, []).expect_err("ids are positive");
        assert_eq!(rows(&connection, "journal"), before);
    }
    let store = scratch.open();
    store.append_journal(&[entry("c.d")]).await.unwrap();
    let page = store.journal_page(&JournalFilter::default(), 0, 10).await;
    assert_eq!(page.unwrap().len(), 2, "it still grows");
}
