//! A bare loop of prepared statements on the same SQLite file: the statements of Redrive's store,
//! without the store.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::{Connection, params};

use crate::{
    error::{BenchError, failed},
    run_backend::{PAYLOAD, RunBackend, WORKER, at},
};

const QUEUE: &str = "bare";

/// A connection and the ids and epochs of the runs that it holds.
pub(crate) struct SqliteLoop {
    connection: Connection,
    held: Vec<(i64, i64)>,
}

impl SqliteLoop {
    /// Opens the file with the settings of the store.
    pub(crate) fn open(path: &Path) -> Result<Self, BenchError> {
        let connection = Connection::open(path).map_err(failed)?;
        for (pragma, value) in [("synchronous", "full"), ("wal_autocheckpoint", "4096")] {
            connection.pragma_update(None, pragma, value).map_err(failed)?;
        }
        Ok(Self { connection, held: Vec::new() })
    }

    pub(crate) fn transaction<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        let done = work(&self.connection)?;
        self.connection.execute_batch("COMMIT").map_err(failed)?;
        Ok(done)
    }
}

/// A statement of the store, by the name of its file.
pub(crate) fn query(name: &str) -> Result<&'static str, BenchError> {
    let found = redrive_sqlite::QUERIES.iter().find(|(file, _)| *file == name);
    found
        .map(|(_, sql)| *sql)
        .ok_or_else(|| BenchError::new(format!("redrive-sqlite has no query {name}")))
}

#[async_trait]
impl RunBackend for SqliteLoop {
    async fn insert(&mut self, batch: usize) -> Result<(), BenchError> {
        let sql = query("insert_runs")?;
        self.transaction(|connection| {
            let mut insert = connection.prepare_cached(sql).map_err(failed)?;
            let at = at(0).as_microsecond();
            let null: Option<i64> = None;
            for _ in 0..batch {
                let row = params![QUEUE, "", PAYLOAD, at, null, null, 1, null];
                insert.execute(row).map_err(failed)?;
            }
            Ok(())
        })
    }

    async fn claim(&mut self, batch: usize) -> Result<usize, BenchError> {
        let (promote, claim) = (query("promote_due_runs")?, query("claim_runs_in")?);
        let until = at(3_600).as_microsecond();
        let claimed = self.transaction(|connection| {
            let mut promote = connection.prepare_cached(promote).map_err(failed)?;
            promote.execute(params![QUEUE, at(1).as_microsecond()]).map_err(failed)?;
            let mut claim = connection.prepare_cached(claim).map_err(failed)?;
            let limit = i64::try_from(batch).unwrap_or(i64::MAX);
            let row = params![QUEUE, limit, WORKER, until, "", until];
            let rows = claim
                .query_map(row, |row| {
                    // A worker reads the payload, so the loop does too.
                    let _payload: String = row.get(2)?;
                    Ok((row.get(0)?, row.get(5)?))
                })
                .map_err(failed)?;
            rows.collect::<Result<Vec<(i64, i64)>, _>>().map_err(failed)
        })?;
        let count = claimed.len();
        self.held.extend(claimed);
        Ok(count)
    }

    async fn finish(&mut self, batch: usize) -> Result<usize, BenchError> {
        let (finish, insert) = (query("finish_runs")?, query("insert_attempts")?);
        let from = self.held.len().saturating_sub(batch);
        let runs: Vec<(i64, i64)> = self.held.drain(from..).collect();
        self.transaction(|connection| {
            let mut finish = connection.prepare_cached(finish).map_err(failed)?;
            let mut insert = connection.prepare_cached(insert).map_err(failed)?;
            let (started, ended) = (at(1).as_microsecond(), at(2).as_microsecond());
            let null: Option<i64> = None;
            for (id, epoch) in &runs {
                let run = params![
                    id, epoch, "passed", 1, 0, 0, null, started, null, null, null, 0, null, null,
                    null, null
                ];
                finish.execute(run).map_err(failed)?;
                let attempt = params![
                    "run", id, "", null, 1, 1, null, started, ended, "success", null, null, null,
                    null, null, null, WORKER, null
                ];
                insert.execute(attempt).map_err(failed)?;
            }
            Ok(runs.len())
        })
    }
}
