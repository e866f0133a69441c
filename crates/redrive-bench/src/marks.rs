//! A bare loop that marks items as uploaded: the same writes as Redrive's, in as large batches as come
//! together while the batch before is committed, and nothing else.

use std::{path::Path, time::SystemTime};

use redrive::{ItemId, StoreUrl};
use rusqlite::params;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_postgres::NoTls;

use super::{
    contender::{WORKER, at, failed},
    place::Place,
    sqlite_loop::{SqliteLoop, query},
};
use crate::exit::Failure;

/// Items that are marked together at most.
const MAX_BATCH: usize = 1_000;

const MARK: &str = "
    WITH moved AS (
        UPDATE redrive.items AS item SET
            status = given.status, updated_at = given.ended_at,
            last_attempt = item.last_attempt + 1
        FROM (SELECT * FROM unnest(
            $1::bigint[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[]
        ) AS given (id, status, started_at, ended_at, outcome, worker)
        LIMIT cardinality($1)) AS given
        WHERE item.id = given.id AND item.status = 'pending'
        RETURNING given.*, item.last_attempt
    )
    INSERT INTO redrive.attempts
        (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
    SELECT 'item', id, last_attempt, true, started_at, ended_at, outcome, worker FROM moved";

/// Marks what it is told, until nobody tells it more.
pub(super) struct Marker {
    answered: mpsc::UnboundedSender<ItemId>,
    marking: JoinHandle<Result<(), Failure>>,
}

impl Marker {
    pub(super) async fn start(place: &Place) -> Result<Self, Failure> {
        let (answered, told) = mpsc::unbounded_channel();
        let marking = match place.url() {
            StoreUrl::Postgres(postgres) => {
                let connected = tokio_postgres::connect(postgres.with_password(), NoTls).await;
                let (client, connection) = connected.map_err(failed)?;
                // It ends with the client; a broken connection shows in the client's calls.
                tokio::spawn(connection);
                tokio::spawn(mark_in_postgres(client, told))
            }
            StoreUrl::SqliteFile(path) => {
                let marks = SqliteMarks::open(path)?;
                tokio::task::spawn_blocking(move || marks.mark(told))
            }
            StoreUrl::SqliteMemory => tokio::spawn(async { Ok(()) }),
        };
        Ok(Self { answered, marking })
    }

    /// Where to tell what was answered.
    pub(super) fn answered(&self) -> mpsc::UnboundedSender<ItemId> {
        self.answered.clone()
    }

    /// Waits until everything is marked. Nobody may tell it more.
    pub(super) async fn finish(self) -> Result<(), Failure> {
        drop(self.answered);
        self.marking.await.map_err(failed)?
    }
}

struct SqliteMarks(SqliteLoop);

impl SqliteMarks {
    fn open(path: &Path) -> Result<Self, Failure> {
        SqliteLoop::open(path).map(Self)
    }

    fn mark(self, mut told: mpsc::UnboundedReceiver<ItemId>) -> Result<(), Failure> {
        let (moving, insert) = (query("move_items")?, query("insert_attempts")?);
        let (started, ended) = (at(1).as_microsecond(), at(2).as_microsecond());
        let (no, mut batch) = (None::<i64>, Vec::new());
        while told.blocking_recv_many(&mut batch, MAX_BATCH) > 0 {
            self.0.transaction(|connection| {
                let mut moving = connection.prepare_cached(moving).map_err(failed)?;
                let mut insert = connection.prepare_cached(insert).map_err(failed)?;
                for ItemId(id) in batch.drain(..) {
                    let item = params![id, "pending", "uploaded", ended, no, false, true, no];
                    moving.execute(item).map_err(failed)?;
                    let attempt = params![
                        "item", id, "", no, 1, 1, no, started, ended, "success", no, no, no, no,
                        no, no, WORKER
                    ];
                    insert.execute(attempt).map_err(failed)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

async fn mark_in_postgres(
    client: tokio_postgres::Client,
    mut told: mpsc::UnboundedReceiver<ItemId>,
) -> Result<(), Failure> {
    client.batch_execute(super::postgres_loop::PIN_PLANS).await.map_err(failed)?;
    let mark = client.prepare(MARK).await.map_err(failed)?;
    let moment = |second| SystemTime::from(at(second));
    let mut batch = Vec::new();
    while told.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let ids: Vec<i64> = batch.drain(..).map(|ItemId(id)| id).collect();
        let count = ids.len();
        let (started, ended) = (vec![moment(1); count], vec![moment(2); count]);
        let (uploaded, success) = (vec!["uploaded"; count], vec!["success"; count]);
        client
            .execute(&mark, &[&ids, &uploaded, &started, &ended, &success, &vec![WORKER; count]])
            .await
            .map_err(failed)?;
    }
    Ok(())
}
