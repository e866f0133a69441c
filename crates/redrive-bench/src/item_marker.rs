//! A bare loop that marks items as uploaded: the same writes as Redrive's, in batches of what arrives while the
//! previous batch is committed.

use std::path::Path;

use redrive::{ItemId, StoreUrl};
use rusqlite::params;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_postgres::NoTls;

use crate::{
    bench_store::BenchStore,
    error::{BenchError, failed},
    postgres_loop::moment,
    run_backend::{WORKER, at},
    sqlite_loop::{SqliteLoop, query},
};

const MAX_BATCH: usize = 1_000;

const MARK: &str = "
    WITH moved AS (
        UPDATE redrive.items AS item SET
            status = 'uploaded', updated_at = $3, last_attempt = item.last_attempt + 1
        FROM (SELECT id FROM unnest($1::bigint[]) AS given (id) LIMIT cardinality($1)) AS given
        WHERE item.id = given.id AND item.status = 'pending'
        RETURNING item.id, item.last_attempt
    )
    INSERT INTO redrive.attempts
        (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
    SELECT 'item', id, last_attempt, true, $2, $3, 'success', $4 FROM moved";

/// Marks items in the background until all senders are dropped.
pub(crate) struct ItemMarker {
    uploaded: mpsc::UnboundedSender<ItemId>,
    marking: JoinHandle<Result<(), BenchError>>,
}

impl ItemMarker {
    pub(crate) async fn start(bench_store: &BenchStore) -> Result<Self, BenchError> {
        let (uploaded, received) = mpsc::unbounded_channel();
        let marking = match bench_store.url() {
            StoreUrl::Postgres(postgres) => {
                let connected = tokio_postgres::connect(postgres.with_password(), NoTls).await;
                let (client, connection) = connected.map_err(failed)?;
                // The task ends with the client; a broken connection shows in the calls of the client.
                tokio::spawn(connection);
                tokio::spawn(mark_in_postgres(client, received))
            }
            StoreUrl::SqliteFile(path) => {
                let marks = SqliteMarker::open(path)?;
                tokio::task::spawn_blocking(move || marks.mark(received))
            }
            StoreUrl::SqliteMemory => tokio::spawn(async { Ok(()) }),
        };
        Ok(Self { uploaded, marking })
    }

    /// Receives the ids of uploaded items.
    pub(crate) fn sender(&self) -> mpsc::UnboundedSender<ItemId> {
        self.uploaded.clone()
    }

    /// Waits until all items are marked. All senders must be dropped, or the call never returns.
    pub(crate) async fn finish(self) -> Result<(), BenchError> {
        drop(self.uploaded);
        self.marking.await.map_err(failed)?
    }
}

struct SqliteMarker(SqliteLoop);

impl SqliteMarker {
    fn open(path: &Path) -> Result<Self, BenchError> {
        SqliteLoop::open(path).map(Self)
    }

    fn mark(self, mut received: mpsc::UnboundedReceiver<ItemId>) -> Result<(), BenchError> {
        let (moving, insert) = (query("move_items")?, query("insert_attempts")?);
        let (started, ended) = (at(1).as_microsecond(), at(2).as_microsecond());
        let (null, mut batch) = (None::<i64>, Vec::new());
        while received.blocking_recv_many(&mut batch, MAX_BATCH) > 0 {
            self.0.transaction(|connection| {
                let mut moving = connection.prepare_cached(moving).map_err(failed)?;
                let mut insert = connection.prepare_cached(insert).map_err(failed)?;
                for ItemId(id) in batch.drain(..) {
                    let item = params![
                        id, "pending", "uploaded", ended, null, false, true, null, null, null,
                        null, null, null, null, null, null
                    ];
                    moving.execute(item).map_err(failed)?;
                    let attempt = params![
                        "item", id, "", null, 1, 1, null, started, ended, "success", null, null,
                        null, null, null, null, WORKER, null
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
    mut received: mpsc::UnboundedReceiver<ItemId>,
) -> Result<(), BenchError> {
    client.batch_execute(crate::postgres_loop::PIN_PLANS).await.map_err(failed)?;
    let mark = client.prepare(MARK).await.map_err(failed)?;
    let mut batch = Vec::new();
    while received.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let ids: Vec<i64> = batch.drain(..).map(|ItemId(id)| id).collect();
        let marked = client.execute(&mark, &[&ids, &moment(1), &moment(2), &WORKER]).await;
        marked.map_err(failed)?;
    }
    Ok(())
}
