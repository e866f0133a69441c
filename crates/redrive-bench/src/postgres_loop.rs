//! A bare loop of prepared statements on the same PostgreSQL database: the same writes in batches,
//! without duplicates, categories, retries or a store.

use std::{pin::pin, time::SystemTime};

use async_trait::async_trait;
use tokio_postgres::{
    Client, NoTls, Statement,
    binary_copy::BinaryCopyInWriter,
    types::{ToSql, Type},
};

use crate::{
    error::{BenchError, failed},
    run_backend::{PAYLOAD, RunBackend, WORKER, at},
};

const QUEUE: &str = "bare";

/// The settings of the store, so that both get the same plans.
pub(crate) const PIN_PLANS: &str =
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off";

const INSERT: &str = "
    WITH added AS (
        INSERT INTO redrive.runs (queue, payload, submitted_at)
        SELECT $1, payload, $3 FROM unnest($2::text[]) AS new (payload)
        RETURNING queue, category, submitted_at, id
    ),
    ready AS (
        INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh)
        SELECT queue, category, submitted_at, id, true FROM added
    )
    SELECT id FROM added";

const COPY: &str = "COPY redrive.runs (queue, payload, submitted_at) FROM STDIN (FORMAT binary)";

/// What COPY has added, which returns no ids.
const MAKE_READY: &str = "
    INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh)
    SELECT queue, category, submitted_at, id, true FROM redrive.runs WHERE id > $1 AND queue = $2";

const CLAIM: &str = "
    WITH oldest AS MATERIALIZED (
        SELECT ctid AS tid FROM redrive.ready_runs
        WHERE queue = $1 AND category = '' AND (submitted_at, id) > ($4, $5)
        ORDER BY submitted_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
    ),
    taken AS (
        DELETE FROM redrive.ready_runs AS ready
        USING (SELECT tid FROM oldest LIMIT $2) AS few WHERE ready.ctid = few.tid RETURNING ready.id
    ),
    claim AS MATERIALIZED (SELECT nextval('redrive.run_epochs') AS epoch FROM taken LIMIT 1),
    held AS (
        INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, claimed_at, first_run, last_run, run_ids)
        SELECT (SELECT epoch FROM claim), $1, 'bare', $3, $3, min(id), max(id), array_agg(id ORDER BY id)
        FROM taken GROUP BY id >> 8
    )
    SELECT run.id, (SELECT epoch FROM claim), run.payload
    FROM (SELECT id FROM taken LIMIT $2) AS taken JOIN redrive.runs AS run ON run.id = taken.id";

/// Runs that pass at their first attempt leave their claim and enter the ledger together, as those of the store.
const FINISH: &str = "
    WITH held AS MATERIALIZED (
        SELECT id, epoch, run_ids FROM redrive.run_claims
        WHERE epoch = ANY ($2::bigint[]) AND last_run >= $6 AND first_run <= $7 FOR UPDATE
    ),
    held_run AS MATERIALIZED (
        SELECT held.id AS claim_id, held.epoch, run.id FROM held CROSS JOIN LATERAL unnest(held.run_ids) AS run (id)
    ),
    pass AS MATERIALIZED (
        SELECT * FROM unnest($1::bigint[], $2, $3::timestamptz[], $4::timestamptz[])
            AS given (id, epoch, started_at, ended_at)
        WHERE ((id, epoch) IN (SELECT id, epoch FROM held_run)) IS TRUE
    ),
    rest AS MATERIALIZED (
        SELECT claim_id, array_agg(id) AS run_ids FROM held_run
        WHERE (id IN (SELECT id FROM pass)) IS NOT TRUE GROUP BY claim_id
    ),
    emptied AS (
        DELETE FROM redrive.run_claims AS claim USING held
        WHERE claim.id = held.id AND (held.id IN (SELECT claim_id FROM rest)) IS NOT TRUE
    ),
    reduced AS (
        UPDATE redrive.run_claims AS claim SET run_ids = rest.run_ids FROM rest WHERE claim.id = rest.claim_id
    ),
    passed AS (
        INSERT INTO redrive.run_passes (id, block, epoch, worker, run_ids, started_at, ended_at)
        SELECT max(nextval('redrive.attempts_id_seq')), id >> 8, epoch, $5, array_agg(id ORDER BY id),
            array_agg(started_at ORDER BY id), array_agg(ended_at ORDER BY id)
        FROM pass GROUP BY id >> 8, epoch
    )
    SELECT count(*) FROM pass";

/// A connection and the ids and epochs of the runs that it holds.
pub(crate) struct PostgresLoop {
    client: Client,
    insert: Statement,
    claim: Statement,
    finish: Statement,
    make_ready: Statement,
    held: Vec<(i64, i64)>,
    /// The last run that was claimed.
    claimed: i64,
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
            make_ready: client.prepare(MAKE_READY).await.map_err(failed)?,
            client,
            held: Vec::new(),
            claimed: 0,
        })
    }
}

pub(crate) fn moment(second: i64) -> SystemTime {
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
        let last = "SELECT coalesce(max(id), 0) FROM redrive.runs";
        let last: i64 = self
            .client
            .query_one(last, &[])
            .await
            .and_then(|row| row.try_get(0))
            .map_err(failed)?;
        let sink = self.client.copy_in(COPY).await.map_err(failed)?;
        let types = [Type::TEXT, Type::TEXT, Type::TIMESTAMPTZ];
        let mut rows = pin!(BinaryCopyInWriter::new(sink, &types));
        for _ in 0..batch {
            rows.as_mut().write(&[&QUEUE, &PAYLOAD, &moment(0)]).await.map_err(failed)?;
        }
        rows.as_mut().finish().await.map_err(failed)?;
        let ready = self.client.execute(&self.make_ready, &[&last, &QUEUE]).await;
        ready.map(drop).map_err(failed)
    }

    async fn claim(&mut self, batch: usize) -> Result<usize, BenchError> {
        let limit = i64::try_from(batch).unwrap_or(i64::MAX);
        let rows = self
            .client
            .query(&self.claim, &[&QUEUE, &limit, &moment(3_600), &moment(0), &self.claimed])
            .await
            .map_err(failed)?;
        for row in &rows {
            // A worker reads the payload, so the loop does too.
            let _payload: String = row.try_get(2).map_err(failed)?;
            let id = row.try_get(0).map_err(failed)?;
            self.held.push((id, row.try_get(1).map_err(failed)?));
            self.claimed = self.claimed.max(id);
        }
        Ok(rows.len())
    }

    async fn finish(&mut self, batch: usize) -> Result<usize, BenchError> {
        let from = self.held.len().saturating_sub(batch);
        let (ids, epochs): (Vec<i64>, Vec<i64>) = self.held.drain(from..).unzip();
        let count = ids.len();
        let (started, ended) = (vec![moment(1); count], vec![moment(2); count]);
        let (first, last) = (ids.iter().min(), ids.iter().max());
        let values: &[&(dyn ToSql + Sync)] =
            &[&ids, &epochs, &started, &ended, &WORKER, &first, &last];
        let written = self.client.query_one(&self.finish, values).await.map_err(failed)?;
        let written: i64 = written.try_get(0).map_err(failed)?;
        Ok(usize::try_from(written).unwrap_or(usize::MAX))
    }
}
