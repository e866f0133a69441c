//! A bare loop of prepared statements on the same PostgreSQL database: the same writes in batches,
//! without duplicates, categories, retries or a store.

use std::{pin::pin, time::SystemTime};

use async_trait::async_trait;
use tokio_postgres::{Client, NoTls, Statement, binary_copy::BinaryCopyInWriter, types::Type};

use crate::{
    error::{BenchError, failed},
    run_backend::{PAYLOAD, RunBackend, WORKER, at},
};

const QUEUE: &str = "bare";

/// The settings of the store, so that both get the same plans.
pub(crate) const PIN_PLANS: &str =
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off";

const INSERT: &str = "
    INSERT INTO redrive.runs (queue, payload, submitted_at, ready)
    SELECT $1, payload, $3, true FROM unnest($2::text[]) AS new (payload) RETURNING id";

const COPY: &str = "
    COPY redrive.runs (queue, payload, submitted_at, ready) FROM STDIN (FORMAT binary)";

const CLAIM: &str = "
    WITH oldest AS MATERIALIZED (
        SELECT id FROM redrive.runs WHERE queue = $1 AND category = '' AND ready
        ORDER BY submitted_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    UPDATE redrive.runs AS run SET
        status = 'processing', ready = false, lease_owner = 'bare',
        lease_epoch = run.lease_epoch + 1, lease_until = $3
    FROM oldest WHERE run.id = oldest.id RETURNING run.id, run.lease_epoch, run.payload";

/// Binds every column that an attempt may change, row by row, as the store has to.
const FINISH: &str = "
    WITH finished AS (
        UPDATE redrive.runs AS run SET
            status = given.status, attempts = given.attempt, retry_count = given.retry_count,
            deferrals = given.deferrals, next_retry_at = given.next_retry_at,
            due_at = given.next_retry_at, first_attempt_at = given.started_at,
            error_class = given.class, error_message = given.message, result = given.result,
            lease_owner = NULL, lease_until = NULL
        FROM unnest(
            $1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[],
            $12::text[], $13::text[], $14::text[]
        ) AS given (
            id, epoch, status, attempt, retry_count, deferrals, next_retry_at, started_at, ended_at,
            class, message, result, outcome, worker
        )
        WHERE run.id = given.id AND run.lease_epoch = given.epoch AND run.status = 'processing'
        RETURNING given.*
    )
    INSERT INTO redrive.attempts
        (kind, unit_id, attempt, counted, started_at, ended_at, outcome, class, message, worker)
    SELECT 'run', id, attempt, true, started_at, ended_at, outcome, class, message, worker
    FROM finished";

/// A connection and the ids and epochs of the runs that it holds.
pub(crate) struct PostgresLoop {
    client: Client,
    insert: Statement,
    claim: Statement,
    finish: Statement,
    held: Vec<(i64, i64)>,
}

impl PostgresLoop {
    pub(crate) async fn connect(url: &str) -> Result<Self, BenchError> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
        // The task ends with the client; a broken connection shows in the calls of the client.
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
impl RunBackend for PostgresLoop {
    async fn insert(&mut self, batch: usize) -> Result<(), BenchError> {
        let payloads = vec![PAYLOAD; batch];
        let rows = self.client.query(&self.insert, &[&QUEUE, &payloads, &moment(0)]).await;
        rows.map(drop).map_err(failed)
    }

    async fn load(&mut self, batch: usize) -> Result<(), BenchError> {
        let sink = self.client.copy_in(COPY).await.map_err(failed)?;
        let types = [Type::TEXT, Type::TEXT, Type::TIMESTAMPTZ, Type::BOOL];
        let mut rows = pin!(BinaryCopyInWriter::new(sink, &types));
        for _ in 0..batch {
            rows.as_mut().write(&[&QUEUE, &PAYLOAD, &moment(0), &true]).await.map_err(failed)?;
        }
        rows.as_mut().finish().await.map(drop).map_err(failed)
    }

    async fn claim(&mut self, batch: usize) -> Result<usize, BenchError> {
        let limit = i64::try_from(batch).unwrap_or(i64::MAX);
        let rows = self
            .client
            .query(&self.claim, &[&QUEUE, &limit, &moment(3_600)])
            .await
            .map_err(failed)?;
        for row in &rows {
            // A worker reads the payload, so the loop does too.
            let _payload: String = row.try_get(2).map_err(failed)?;
            self.held.push((row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?));
        }
        Ok(rows.len())
    }

    async fn finish(&mut self, batch: usize) -> Result<usize, BenchError> {
        let from = self.held.len().saturating_sub(batch);
        let (ids, epochs): (Vec<i64>, Vec<i64>) = self.held.drain(from..).unzip();
        let count = ids.len();
        let (ones, zeros) = (vec![1_i64; count], vec![0_i64; count]);
        let (no_time, no_text) = (vec![None::<SystemTime>; count], vec![None::<&str>; count]);
        let written = self
            .client
            .execute(
                &self.finish,
                &[
                    &ids,
                    &epochs,
                    &vec!["passed"; count],
                    &ones,
                    &zeros,
                    &zeros,
                    &no_time,
                    &vec![moment(1); count],
                    &vec![moment(2); count],
                    &no_text,
                    &no_text,
                    &no_text,
                    &vec!["success"; count],
                    &vec![WORKER; count],
                ],
            )
            .await
            .map_err(failed)?;
        Ok(usize::try_from(written).unwrap_or(usize::MAX))
    }
}
