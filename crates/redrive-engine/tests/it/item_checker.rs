//! The checker finds what is wrong with items, and only that.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use redrive_core::{Failure, ItemEvent, ItemId, Message};
use redrive_engine::checker::{Invariant, check};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    ItemAttempt, ItemGroup, ItemMove, Items, JournalEntry, NewItem, Operator, Store, Written,
};
use rusqlite::Connection;
use tempfile::TempDir;

const UPLOADED: i64 = 1;
const PENDING: i64 = 2;
const GIVEN_UP: i64 = 3;

/// A store with an item that was acknowledged after a rejection, one that is pending after one, and one
/// that was given up after two.
struct Lived {
    store: SqliteStore,
    folder: TempDir,
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

fn attempt(failure: Option<Failure>) -> Option<ItemAttempt> {
    Some(ItemAttempt {
        gates: None,
        started_at: at(1),
        failure,
        worker: "w".to_owned(),
        after: None,
    })
}

fn step(id: i64, event: ItemEvent) -> ItemMove {
    ItemMove::new(ItemId(id), event, at(2))
}

fn reject(id: i64) -> ItemMove {
    let failure = Failure::http(422, None, "no");
    ItemMove {
        rejection_reason: Some(Message::clean("no")),
        attempt: attempt(Some(failure)),
        ..step(id, ItemEvent::RejectAttempt)
    }
}

impl Lived {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("store.db"));
        let store = SqliteStore::open(location, SqliteOptions::default(), at(0)).unwrap();
        let lived = Self { store, folder };
        lived.live().await;
        lived
    }

    async fn live(&self) {
        let group = ItemGroup { upload: "tiles".to_owned(), group: "g".to_owned() };
        let item = |name: &str| NewItem {
            group: group.clone(),
            name: name.to_owned(),
            content_url: "file:/x".to_owned(),
            size_bytes: 1,
            sha256: "ab".repeat(32),
        };
        let by = Operator { actor: "ada".to_owned(), at: at(0), reason: None };
        self.store.add_items(&["a", "b", "c"].map(item), &by).await.unwrap();
        for id in [UPLOADED, PENDING, GIVEN_UP, GIVEN_UP] {
            self.apply(reject(id)).await;
            self.store.increment_upload_attempts(ItemId(id)).await.unwrap();
        }
        let acknowledge = step(UPLOADED, ItemEvent::Acknowledge);
        self.apply(ItemMove { attempt: attempt(None), ..acknowledge }).await;
        let entry = JournalEntry {
            at: at(3),
            actor: "w".to_owned(),
            action: "upload.giveup".to_owned(),
            unit: Some(format!("item:{GIVEN_UP}")),
            filter: None,
            details: "{}".to_owned(),
            dedupe_key: None,
        };
        self.apply(ItemMove { journal: Some(entry), ..step(GIVEN_UP, ItemEvent::GiveUp) }).await;
    }

    async fn apply(&self, step: ItemMove) {
        assert_eq!(self.store.move_items(&[step]).await.unwrap(), [Written::Applied]);
    }

    /// Past the store, as damage would come.
    fn damage(&self, sql: &str) {
        let path: PathBuf = self.folder.path().join("store.db");
        Connection::open(path).unwrap().execute_batch(sql).unwrap();
    }

    async fn findings(&self) -> Vec<(Invariant, String)> {
        let report = check(&self.store as &dyn Store).await.unwrap();
        assert_eq!(report.items, 3);
        report.findings.into_iter().map(|finding| (finding.invariant, finding.unit)).collect()
    }
}

// UPL-5, OPS-3
#[tokio::test]
async fn items_that_lived_well_have_nothing_wrong_with_them() {
    let lived = Lived::new().await;
    assert_eq!(lived.findings().await, []);
    let report = check(&lived.store as &dyn Store).await.unwrap();
    assert_eq!((report.items, report.attempts), (3, 5));
}

// UPL-4, UPL-5
#[tokio::test]
async fn every_kind_of_damage_to_an_item_is_found() {
    let cases = [
        ("UPDATE items SET last_attempt = 7 WHERE id = 2", Invariant::LedgerNumbers, PENDING),
        ("UPDATE items SET upload_attempts = 9 WHERE id = 2", Invariant::RetryCount, PENDING),
        ("UPDATE items SET attempts_at_reset = 3 WHERE id = 3", Invariant::RetryCount, GIVEN_UP),
        (
            "UPDATE items SET status = 'pending' WHERE id = 1",
            Invariant::StatusMatchesLedger,
            UPLOADED,
        ),
        (
            "UPDATE items SET status = 'uploaded' WHERE id = 2",
            Invariant::StatusMatchesLedger,
            PENDING,
        ),
        (
            "UPDATE items SET status = 'upload_giveup' WHERE id = 2",
            Invariant::GiveUpRecorded,
            PENDING,
        ),
    ];
    for (sql, invariant, id) in cases {
        let lived = Lived::new().await;
        lived.damage(sql);
        assert_eq!(lived.findings().await, [(invariant, format!("item:{id}"))], "{sql}");
    }
}

// UPL-1
#[tokio::test]
async fn an_attempt_at_an_item_that_does_not_exist_is_found() {
    let lived = Lived::new().await;
    lived.damage(
        "INSERT INTO attempts (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
         VALUES ('item', 99, 1, 1, 0, 0, 'success', 'w')",
    );
    assert_eq!(lived.findings().await, [(Invariant::LedgerNumbers, "item:99".to_owned())]);
}

// UPL-1
#[tokio::test]
async fn an_uploader_of_ones_own_need_not_write_the_ledger() {
    let lived = Lived::new().await;
    lived.damage(
        "UPDATE items SET status = 'uploaded', last_attempt = 0, upload_attempts = 2 WHERE id = 2",
    );
    lived.damage("DROP TRIGGER attempts_no_delete; DELETE FROM attempts WHERE unit_id = 2");
    lived.damage(
        "UPDATE cause_hours SET attempts = (
            SELECT count(*) FROM attempts WHERE attempts.fingerprint = cause_hours.fingerprint
        )",
    );
    assert_eq!(lived.findings().await, []);
}
