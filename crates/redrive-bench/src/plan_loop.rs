//! A bare batched update of the rows that a plan writes: the run, the unit of the plan and the entry of the journal, without
//! looking at the run first, leases, counts or fencing.

use std::time::Instant;

use redrive::StoreUrl;
use redrive_core::PlanId;
use redrive_engine::{Clock, SystemClock};
use rusqlite::params;
use tokio_postgres::NoTls;

use crate::{
    bench_store::BenchStore,
    error::{BenchError, failed},
    postgres_loop::PIN_PLANS,
};

const DETAILS: &str = r#"{"before":"error","plan":1,"reason":null}"#;
const UNDO: &str = r#"{"attempts_at_reset":0,"deferrals":0,"first_attempt_at":1700000000000000,"next_retry_at":null,"retry_count":1}"#;

const PAGE: &str =
    "SELECT unit_id FROM plan_units WHERE plan_id = ?1 AND unit_id > ?2 ORDER BY unit_id LIMIT ?3";
const RUN: &str = "UPDATE runs SET status = 'discovered', ready = 1, due_at = NULL, next_retry_at = NULL, \
                   retry_count = 0, deferrals = 0, first_attempt_at = NULL, attempts_at_reset = attempts WHERE id = ?1";
const UNIT: &str = "UPDATE plan_units SET outcome = 'pending', outcome_at = ?3, undo = ?4 \
                    WHERE plan_id = ?1 AND unit_id = ?2";
const ENTRY: &str = "INSERT INTO journal (at, actor, action, unit, details) \
                     VALUES (?1, 'bench', 'run.retry', ?2, ?3)";

const POSTGRES_PAGE: &str = "SELECT unit_id FROM redrive.plan_units WHERE plan_id = $1 AND unit_id > $2 ORDER BY unit_id LIMIT $3";
const POSTGRES_RUNS: &str = "
    WITH retried AS (
        UPDATE redrive.run_states AS run SET
            status = 'discovered', waits = false, next_retry_at = NULL, retry_count = 0, deferrals = 0, first_attempt_at = NULL,
            attempts_at_reset = run.attempts
        FROM (SELECT * FROM unnest($1::bigint[]) AS named (id) LIMIT cardinality($1)) AS named
        WHERE run.id = named.id
        RETURNING run.id, run.queue, run.category, run.submitted_at
    ),
    ready_again AS (
        INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh, has_state)
        SELECT queue, category, submitted_at, id, true, true FROM retried
    )
    INSERT INTO redrive.journal (at, actor, action, unit, details)
    SELECT $2, 'bench', 'run.retry', 'run:' || id, $3 FROM retried";
const POSTGRES_UNITS: &str = "
    UPDATE redrive.plan_units AS unit SET outcome = 'pending', outcome_at = $3, undo = $4
    FROM (SELECT * FROM unnest($2::bigint[]) AS named (id) LIMIT cardinality($2)) AS named
    WHERE unit.plan_id = $1 AND unit.unit_id = named.id";

/// A connection of its own.
pub(crate) enum PlanLoop {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client, [tokio_postgres::Statement; 3]),
}

impl PlanLoop {
    pub(crate) async fn open(bench_store: &BenchStore) -> Result<Self, BenchError> {
        match bench_store.url() {
            StoreUrl::SqliteFile(path) => {
                let connection = rusqlite::Connection::open(path).map_err(failed)?;
                connection.busy_timeout(std::time::Duration::from_secs(10)).map_err(failed)?;
                // The settings of the store.
                for (pragma, value) in [("synchronous", "full"), ("wal_autocheckpoint", "4096")] {
                    connection.pragma_update(None, pragma, value).map_err(failed)?;
                }
                Ok(Self::Sqlite(connection))
            }
            StoreUrl::Postgres(postgres) => {
                let connected = tokio_postgres::connect(postgres.with_password(), NoTls).await;
                let (client, connection) = connected.map_err(failed)?;
                tokio::spawn(connection);
                client.batch_execute(PIN_PLANS).await.map_err(failed)?;
                // Autovacuum does this within minutes; until then lookups pass the claims of all runs that were filled in.
                client.batch_execute("VACUUM (ANALYZE)").await.map_err(failed)?;
                let statements = [
                    client.prepare(POSTGRES_PAGE).await.map_err(failed)?,
                    client.prepare(POSTGRES_RUNS).await.map_err(failed)?,
                    client.prepare(POSTGRES_UNITS).await.map_err(failed)?,
                ];
                Ok(Self::Postgres(client, statements))
            }
            StoreUrl::SqliteMemory => {
                Err(BenchError::usage("a SQLite database in memory has one connection"))
            }
        }
    }

    /// Changes the units of a plan, and returns how many in a second.
    pub(crate) async fn apply(&mut self, plan: PlanId, batch: usize) -> Result<f64, BenchError> {
        let (begun, mut changed, mut after) = (Instant::now(), 0, 0);
        loop {
            let ids = match self {
                Self::Sqlite(connection) => sqlite_batch(connection, plan, after, batch)?,
                Self::Postgres(client, statements) => {
                    postgres_batch(client, statements, plan, after, batch).await?
                }
            };
            let Some(last) = ids.last() else { break };
            (after, changed) = (*last, changed + ids.len());
        }
        Ok(changed as f64 / begun.elapsed().as_secs_f64())
    }
}

fn sqlite_batch(
    connection: &mut rusqlite::Connection,
    plan: PlanId,
    after: i64,
    batch: usize,
) -> Result<Vec<i64>, BenchError> {
    let at = SystemClock.now().as_microsecond();
    let behavior = rusqlite::TransactionBehavior::Immediate;
    let transaction = connection.transaction_with_behavior(behavior).map_err(failed)?;
    let mut page = transaction.prepare_cached(PAGE).map_err(failed)?;
    let ids = page.query_map(params![plan.0, after, batch as i64], |row| row.get(0));
    let ids: Vec<i64> = ids.map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    let mut run = transaction.prepare_cached(RUN).map_err(failed)?;
    let mut unit = transaction.prepare_cached(UNIT).map_err(failed)?;
    let mut entry = transaction.prepare_cached(ENTRY).map_err(failed)?;
    for id in &ids {
        run.execute([id]).map_err(failed)?;
        unit.execute(params![plan.0, id, at, UNDO]).map_err(failed)?;
        entry.execute(params![at, format!("run:{id}"), DETAILS]).map_err(failed)?;
    }
    drop((page, run, unit, entry));
    transaction.commit().map_err(failed)?;
    Ok(ids)
}

async fn postgres_batch(
    client: &mut tokio_postgres::Client,
    [page, runs, units]: &[tokio_postgres::Statement; 3],
    plan: PlanId,
    after: i64,
    batch: usize,
) -> Result<Vec<i64>, BenchError> {
    let at = std::time::SystemTime::from(SystemClock.now());
    let transaction = client.transaction().await.map_err(failed)?;
    let rows = transaction.query(page, &[&plan.0, &after, &(batch as i64)]).await;
    let rows = rows.map_err(failed)?;
    let ids = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>();
    let ids = ids.map_err(failed)?;
    transaction.execute(runs, &[&ids, &at, &DETAILS]).await.map_err(failed)?;
    transaction.execute(units, &[&plan.0, &ids, &at, &UNDO]).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(ids)
}
