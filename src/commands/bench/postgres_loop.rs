//! A bare loop of prepared statements on the same PostgreSQL database: the same writes in batches,
//! without duplicates, categories, retries or a store.

use std::time::SystemTime;

use async_trait::async_trait;
use tokio_postgres::{Client, NoTls, Statement};

use super::contender::{Contender, PAYLOAD, at, failed};
use crate::exit::Failure;

/// The queue of its runs.
const QUEUE: &str = "bare";

/// As the store does, so that both have the same plans.
const PIN_PLANS: &str =
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off";

const INSERT: &str = "
    INSERT INTO redrive.runs (queue, payload, submitted_at, ready)
    SELECT $1, payload, $3, true FROM unnest($2::text[]) AS new (payload) RETURNING id";

const CLAIM: &str = "
    WITH oldest AS MATERIALIZED (
        SELECT id FROM redrive.runs WHERE queue = $1 AND category = '' AND ready
        ORDER BY submitted_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    UPDATE redrive.runs AS run SET
        status = 'processing', ready = false, lease_owner = 'bare',
        lease_epoch = run.lease_epoch + 1, lease_until = $3
    FROM oldest WHERE run.id = oldest.id RETURNING run.id, run.lease_epoch, run.payload";

const FINISH: &str = "
    WITH finished AS (
        UPDATE redrive.runs AS run SET
            status = 'passed', attempts = 1, first_attempt_at = $3, lease_owner = NULL,
            lease_until = NULL
        FROM unnest($1::bigint[], $2::bigint[]) AS given (id, epoch)
        WHERE run.id = given.id AND run.lease_epoch = given.epoch AND run.status = 'processing'
        RETURNING run.id
    )
    INSERT INTO redrive.attempts
        (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
    SELECT 'run', id, 1, true, $3, $4, 'success', 'bare' FROM finished";

/// A connection and the runs it holds, with their epochs.
pub(crate) struct PostgresLoop {
    client: Client,
    insert: Statement,
    claim: Statement,
    finish: Statement,
    held: Vec<(i64, i64)>,
}

impl PostgresLoop {
    /// Connects and prepares the statements.
    pub(crate) async fn connect(url: &str) -> Result<Self, Failure> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
        // It ends with the client; a broken connection shows in the client's calls.
        tokio::spawn(connection);
        client.batch_execute(PIN_PLANS).await.map_err(failed)?;
        Ok(Self {
            insert: client.prepare(INSERT).await.map_err(failed)?,
            claim: client.prepare(CLAIM).await.map_err(failed)?,
            finish: client.prepare(FINISH).await.map_err(failed)?,
            client,
            held: Vec::new(),
        })
    }
}

fn moment(second: i64) -> SystemTime {
    at(second).into()
}

#[async_trait]
impl Contender for PostgresLoop {
    async fn insert(&mut self, batch: usize) -> Result<(), Failure> {
        let payloads = vec![PAYLOAD; batch];
        let rows = self.client.query(&self.insert, &[&QUEUE, &payloads, &moment(0)]).await;
        rows.map(drop).map_err(failed)
    }

    async fn claim(&mut self, batch: usize) -> Result<usize, Failure> {
        let limit = i64::try_from(batch).unwrap_or(i64::MAX);
        let rows = self
            .client
            .query(&self.claim, &[&QUEUE, &limit, &moment(3_600)])
            .await
            .map_err(failed)?;
        for row in &rows {
            // A worker needs the payload, so the loop reads it too.
            let _payload: String = row.try_get(2).map_err(failed)?;
            self.held.push((row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?));
        }
        Ok(rows.len())
    }

    async fn finish(&mut self, batch: usize) -> Result<usize, Failure> {
        let from = self.held.len().saturating_sub(batch);
        let (ids, epochs): (Vec<i64>, Vec<i64>) = self.held.drain(from..).unzip();
        let written = self
            .client
            .execute(&self.finish, &[&ids, &epochs, &moment(1), &moment(2)])
            .await
            .map_err(failed)?;
        Ok(usize::try_from(written).unwrap_or(usize::MAX))
    }
}
