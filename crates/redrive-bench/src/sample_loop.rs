//! Bare loops that take samples through stages: the same rows and the same durability as Redrive's pipelines, in
//! batches, without retries, budgets or a store.

use std::path::Path;

use async_trait::async_trait;
use redrive::StoreUrl;
use rusqlite::{Connection, params};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Statement};

use crate::{
    bench_store::BenchStore,
    error::{BenchError, failed},
    postgres_loop::{PIN_PLANS, moment},
    run_backend::{WORKER, at},
    sqlite_loop::{SqliteLoop, query},
    usage::{Stopwatch, Usage},
};

/// Samples that a loop inserts, claims and writes at a time.
const BATCH: usize = 1_000;

/// As long as the hash of a real stage.
const CONFIG_HASH: &str = "9f86d081884c7d65";

/// A connection that takes its share of the samples through all stages.
#[async_trait]
trait SampleLoop: Send {
    async fn insert(&mut self, lines: std::ops::Range<u64>, data: &str) -> Result<(), BenchError>;

    /// Claims up to a batch of samples at the first stage and holds them; returns their number.
    async fn claim(&mut self) -> Result<usize, BenchError>;

    /// Writes what a stage made of the held samples, with a ledger row each, and keeps them for the next stage. After
    /// the last stage they are counted in their run.
    async fn write(&mut self, stage: usize, stages: &[&str]) -> Result<(), BenchError>;
}

/// The usage of attempts at stages by bare loops, one per connection, from the source to the end.
pub(crate) async fn bare_pipeline(
    bench_store: &BenchStore,
    stages: &'static [&'static str],
    samples: u64,
    data: &'static str,
) -> Result<Usage, BenchError> {
    let mut loops: Vec<Box<dyn SampleLoop>> = Vec::new();
    match bench_store.url() {
        StoreUrl::Postgres(postgres) => {
            let url = postgres.with_password();
            let run = PostgresSamples::start_run(url, stages).await?;
            for _ in 0..bench_store.users() {
                loops.push(Box::new(PostgresSamples::connect(url, run).await?));
            }
        }
        StoreUrl::SqliteFile(path) => loops.push(Box::new(SqliteSamples::open(path, stages)?)),
        StoreUrl::SqliteMemory => {}
    }
    let share = samples.div_ceil(loops.len().max(1) as u64);
    let stopwatch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for (place, mut each) in (0..).zip(loops) {
        let lines = place * share + 1..samples.min((place + 1) * share) + 1;
        tasks.spawn(async move {
            for first in lines.clone().step_by(BATCH) {
                each.insert(first..lines.end.min(first + BATCH as u64), data).await?;
            }
            while each.claim().await? > 0 {
                for stage in 0..stages.len() {
                    each.write(stage, stages).await?;
                }
            }
            Ok::<(), BenchError>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(failed)??;
    }
    Ok(stopwatch.usage_for(samples as usize * stages.len()))
}

const START_RUN: &str = "
    INSERT INTO redrive.pipeline_runs (pipeline, stages, rules, read_ahead, source, total, started_at, started_by)
    VALUES ('bare', $1, '{}', 10000, 'bare', 1000000000, $2, 'bare') RETURNING id";

const INSERT: &str = "
    INSERT INTO redrive.samples (run_id, line, data, line_hash)
    SELECT $1, line, $3, 7 FROM unnest($2::bigint[]) AS new (line)";

const CLAIM: &str = "
    WITH locked AS MATERIALIZED (
        SELECT ctid AS tid FROM redrive.samples
        WHERE (run_id, claim_stage) >= ($1, 0) AND (run_id, claim_stage) <= ($1, 0)
            AND status = 'pending' AND next_retry_at IS NULL AND lease_owner IS NULL
        ORDER BY run_id, claim_stage, id LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    UPDATE redrive.samples AS sample SET
        lease_owner = $3, lease_epoch = sample.lease_epoch + 1, lease_until = $4, claimed_at = $4
    FROM (SELECT tid FROM locked LIMIT $2) AS few WHERE sample.ctid = few.tid
    RETURNING sample.id, sample.lease_epoch, sample.data";

const WRITE: &str = "
    WITH written AS (
        UPDATE redrive.samples AS sample SET
            data = given.data, stage = $4, lease_epoch = sample.lease_epoch + 1, lease_until = $6, claimed_at = $6
        FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS given (id, epoch, data)
            LIMIT cardinality($1)) AS given
        WHERE sample.id = given.id AND sample.lease_epoch = given.epoch AND sample.lease_owner IS NOT NULL
        RETURNING given.id
    )
    INSERT INTO redrive.attempts
        (kind, unit_id, stage, stage_config_hash, attempt, counted, started_at, ended_at, outcome, worker)
    SELECT 'sample', id, $5, $8, 1, true, $6, $6, 'success', $7 FROM written";

const WRITE_LAST: &str = "
    WITH written AS (
        UPDATE redrive.samples AS sample SET
            data = given.data, status = 'succeeded', claim_stage = $4, attempts = 1, first_attempt_at = $6,
            last_attempt_at = $6, lease_owner = NULL, lease_until = NULL
        FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS given (id, epoch, data)
            LIMIT cardinality($1)) AS given
        WHERE sample.id = given.id AND sample.lease_epoch = given.epoch AND sample.lease_owner IS NOT NULL
        RETURNING given.id, sample.run_id
    ),
    ledger AS (
        INSERT INTO redrive.attempts
            (kind, unit_id, stage, stage_config_hash, attempt, counted, started_at, ended_at, outcome, worker)
        SELECT 'sample', id, $5, $8, 1, true, $6, $6, 'success', $7 FROM written
    )
    UPDATE redrive.pipeline_runs AS run SET succeeded = run.succeeded + ended.count
    FROM (SELECT run_id, count(*) FROM written GROUP BY run_id LIMIT 1) AS ended WHERE run.id = ended.run_id";

struct PostgresSamples {
    client: Client,
    run: i64,
    insert: Statement,
    claim: Statement,
    write: Statement,
    write_last: Statement,
    held: Vec<(i64, i64, String)>,
}

impl PostgresSamples {
    async fn start_run(url: &str, stages: &[&str]) -> Result<i64, BenchError> {
        let client = connected(url).await?;
        let row = client.query_one(START_RUN, &[&stages, &moment(0)]).await.map_err(failed)?;
        row.try_get(0).map_err(failed)
    }

    async fn connect(url: &str, run: i64) -> Result<Self, BenchError> {
        let client = connected(url).await?;
        Ok(Self {
            insert: client.prepare(INSERT).await.map_err(failed)?,
            claim: client.prepare(CLAIM).await.map_err(failed)?,
            write: client.prepare(WRITE).await.map_err(failed)?,
            write_last: client.prepare(WRITE_LAST).await.map_err(failed)?,
            client,
            run,
            held: Vec::new(),
        })
    }
}

async fn connected(url: &str) -> Result<Client, BenchError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    // The task ends with the client; a broken connection shows in the calls of the client.
    tokio::spawn(connection);
    client.batch_execute(PIN_PLANS).await.map_err(failed)?;
    Ok(client)
}

#[async_trait]
impl SampleLoop for PostgresSamples {
    async fn insert(&mut self, lines: std::ops::Range<u64>, data: &str) -> Result<(), BenchError> {
        let lines: Vec<i64> = lines.filter_map(|line| i64::try_from(line).ok()).collect();
        let inserted = self.client.execute(&self.insert, &[&self.run, &lines, &data]).await;
        inserted.map(drop).map_err(failed)
    }

    async fn claim(&mut self) -> Result<usize, BenchError> {
        let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
        let rows = self
            .client
            .query(&self.claim, &[&self.run, &limit, &WORKER, &moment(3_600)])
            .await
            .map_err(failed)?;
        self.held = rows
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
            .collect::<Result<_, tokio_postgres::Error>>()
            .map_err(failed)?;
        Ok(self.held.len())
    }

    async fn write(&mut self, stage: usize, stages: &[&str]) -> Result<(), BenchError> {
        let last = stage + 1 == stages.len();
        let statement = if last { &self.write_last } else { &self.write };
        let ids: Vec<i64> = self.held.iter().map(|(id, ..)| *id).collect();
        let epochs: Vec<i64> = self.held.iter().map(|(_, epoch, _)| *epoch).collect();
        let data: Vec<&str> = self.held.iter().map(|(.., data)| data.as_str()).collect();
        let place = i64::try_from(if last { stage } else { stage + 1 }).unwrap_or(i64::MAX);
        let name = stages.get(stage).copied().unwrap_or_default();
        self.client
            .execute(
                statement,
                &[&ids, &epochs, &data, &place, &name, &moment(1), &WORKER, &CONFIG_HASH],
            )
            .await
            .map_err(failed)?;
        self.held.iter_mut().for_each(|(_, epoch, _)| *epoch += 1);
        Ok(())
    }
}

/// The statements of Redrive's store.
struct SqliteSamples {
    bare: SqliteLoop,
    run: i64,
    held: Vec<(i64, i64, String)>,
}

impl SqliteSamples {
    fn open(path: &Path, stages: &[&str]) -> Result<Self, BenchError> {
        let bare = SqliteLoop::open(path)?;
        let stages = serde_json::to_string(stages).map_err(failed)?;
        let run = bare.transaction(|connection| {
            let sql = "INSERT INTO pipeline_runs
                (pipeline, stages, rules, read_ahead, source, total, started_at, started_by)
                VALUES ('bare', ?1, '{}', 10000, 'bare', 1000000000, ?2, 'bare')";
            connection.execute(sql, params![stages, at(0).as_microsecond()]).map_err(failed)?;
            Ok(connection.last_insert_rowid())
        })?;
        Ok(Self { bare, run, held: Vec::new() })
    }

    fn count_ended(&self, connection: &Connection) -> Result<(), BenchError> {
        let sql = "UPDATE pipeline_runs SET succeeded = succeeded + ?2 WHERE id = ?1";
        let mut count = connection.prepare_cached(sql).map_err(failed)?;
        count.execute(params![self.run, self.held.len()]).map(drop).map_err(failed)
    }
}

#[async_trait]
impl SampleLoop for SqliteSamples {
    async fn insert(&mut self, lines: std::ops::Range<u64>, data: &str) -> Result<(), BenchError> {
        let (sql, null) = (query("insert_samples")?, None::<i64>);
        self.bare.transaction(|connection| {
            let mut insert = connection.prepare_cached(sql).map_err(failed)?;
            for line in lines {
                let row = params![self.run, line, data, "pending", null, null, null, null, null, 7];
                insert.execute(row).map_err(failed)?;
            }
            Ok(())
        })
    }

    async fn claim(&mut self) -> Result<usize, BenchError> {
        let (sql, until) = (query("claim_samples")?, at(3_600).as_microsecond());
        self.held = self.bare.transaction(|connection| {
            let mut claim = connection.prepare_cached(sql).map_err(failed)?;
            let own = params![self.run, 0, BATCH, WORKER, until, until];
            let rows = claim
                .query_map(own, |row| Ok((row.get(0)?, row.get(4)?, row.get(2)?)))
                .map_err(failed)?;
            rows.collect::<Result<_, _>>().map_err(failed)
        })?;
        Ok(self.held.len())
    }

    async fn write(&mut self, stage: usize, stages: &[&str]) -> Result<(), BenchError> {
        let (finish, insert) = (query("finish_samples")?, query("insert_attempts")?);
        let name = stages.get(stage).copied().unwrap_or_default();
        let last = stage + 1 == stages.len();
        let (started, ended) = (at(1).as_microsecond(), at(2).as_microsecond());
        let (null, kept) = (None::<i64>, |until| (!last).then_some(until));
        let tried_at = last.then_some(ended);
        let status = if last { "succeeded" } else { "pending" };
        let place = if last { stage } else { stage + 1 };
        self.bare.transaction(|connection| {
            let mut finish = connection.prepare_cached(finish).map_err(failed)?;
            let mut insert = connection.prepare_cached(insert).map_err(failed)?;
            for (id, epoch, data) in &self.held {
                let sample = params![
                    id,
                    epoch,
                    status,
                    place,
                    data,
                    u8::from(last),
                    0,
                    0,
                    null,
                    tried_at,
                    tried_at,
                    null,
                    null,
                    null,
                    null,
                    null,
                    (!last).then_some(WORKER),
                    kept(ended),
                    ended
                ];
                finish.execute(sample).map_err(failed)?;
                let attempt = params![
                    "sample",
                    id,
                    name,
                    CONFIG_HASH,
                    1,
                    1,
                    null,
                    started,
                    ended,
                    "success",
                    null,
                    null,
                    null,
                    null,
                    null,
                    null,
                    WORKER,
                    null
                ];
                insert.execute(attempt).map_err(failed)?;
            }
            if last { self.count_ended(connection) } else { Ok(()) }
        })?;
        self.held.iter_mut().for_each(|(_, epoch, _)| *epoch += 1);
        Ok(())
    }
}
