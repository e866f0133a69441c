//! A bare loop of prepared statements on the same SQLite file: the statements of Redrive's store,
//! without the store.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::contender::{Contender, PAYLOAD, WORKER, at, failed};
use crate::exit::{Exit, Failure};

/// The queue of its runs.
const QUEUE: &str = "bare";

/// A connection and the runs it holds, with their epochs.
pub(crate) struct SqliteLoop {
    connection: Connection,
    held: Vec<(i64, i64)>,
}

impl SqliteLoop {
    /// Opens the file the way the store does.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let connection = Connection::open(path).map_err(failed)?;
        for (pragma, value) in [("synchronous", "full"), ("wal_autocheckpoint", "4096")] {
            connection.pragma_update(None, pragma, value).map_err(failed)?;
        }
        Ok(Self { connection, held: Vec::new() })
    }

    /// Runs statements in one transaction.
    pub(super) fn transaction<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        let done = work(&self.connection)?;
        self.connection.execute_batch("COMMIT").map_err(failed)?;
        Ok(done)
    }
}

/// One of the store's statements.
pub(super) fn query(name: &str) -> Result<&'static str, Failure> {
    let found = redrive_sqlite::QUERIES.iter().find(|(file, _)| *file == name);
    found
        .map(|(_, sql)| *sql)
        .ok_or_else(|| Failure::new(Exit::Error, format!("there is no statement {name}")))
}

#[async_trait]
impl Contender for SqliteLoop {
    async fn insert(&mut self, batch: usize) -> Result<(), Failure> {
        let sql = query("insert_runs")?;
        self.transaction(|connection| {
            let mut insert = connection.prepare_cached(sql).map_err(failed)?;
            let at = at(0).as_microsecond();
            let nothing: Option<i64> = None;
            for _ in 0..batch {
                let row = params![QUEUE, "", PAYLOAD, at, nothing, nothing, 1, nothing];
                insert.execute(row).map_err(failed)?;
            }
            Ok(())
        })
    }

    async fn claim(&mut self, batch: usize) -> Result<usize, Failure> {
        let (promote, claim) = (query("promote_due_runs")?, query("claim_runs_in")?);
        let until = at(3_600).as_microsecond();
        let claimed = self.transaction(|connection| {
            let mut promote = connection.prepare_cached(promote).map_err(failed)?;
            promote.execute(params![QUEUE, at(1).as_microsecond()]).map_err(failed)?;
            let mut claim = connection.prepare_cached(claim).map_err(failed)?;
            let limit = i64::try_from(batch).unwrap_or(i64::MAX);
            let row = params![QUEUE, limit, WORKER, until, ""];
            let rows = claim
                .query_map(row, |row| {
                    // A worker needs the payload, so the loop reads it too.
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

    async fn finish(&mut self, batch: usize) -> Result<usize, Failure> {
        let (finish, insert) = (query("finish_runs")?, query("insert_attempts")?);
        let from = self.held.len().saturating_sub(batch);
        let runs: Vec<(i64, i64)> = self.held.drain(from..).collect();
        self.transaction(|connection| {
            let mut finish = connection.prepare_cached(finish).map_err(failed)?;
            let mut insert = connection.prepare_cached(insert).map_err(failed)?;
            let (started, ended) = (at(1).as_microsecond(), at(2).as_microsecond());
            let no: Option<i64> = None;
            for (id, epoch) in &runs {
                let run = params![id, epoch, "passed", 1, 0, 0, no, started, no, no, no, 0, no];
                finish.execute(run).map_err(failed)?;
                let attempt = params![
                    "run", id, "", no, 1, 1, no, started, ended, "success", no, no, no, no, no, no,
                    WORKER
                ];
                insert.execute(attempt).map_err(failed)?;
            }
            Ok(runs.len())
        })
    }
}
