//! Implements [`Workers`].

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    AttemptCount, AttemptCountFilter, CountPeriod, PeriodCount, Presence, Result, UnitKind,
    WorkerRecord, Workers, worker_kept_since,
};
use rusqlite::{Connection, Params, params};

use crate::{
    SqliteStore,
    columns::{json_list, micros, read_records},
    error::Doing,
    queries,
};

const WRITING: &str = "reporting a worker";

#[async_trait]
impl Workers for SqliteStore {
    async fn report(
        &self,
        presence: &Presence,
        counts: &[AttemptCount],
        at: Timestamp,
    ) -> Result<()> {
        let (presence, counts, now) = (presence.clone(), counts.to_vec(), (self.clock)());
        self.write(move |connection| {
            match &presence {
                Presence::Working(worker) => put(connection, worker)?,
                Presence::Stopped(id) => {
                    execute(connection, queries::REMOVE_WORKER, params![id.0])?;
                }
                Presence::NoWorker => {}
            }
            redrive_store::failpoint!("sqlite.workers.reported");
            counts.iter().try_for_each(|count| add(connection, count))?;
            let silent = params![micros(worker_kept_since(now))];
            execute(connection, queries::REMOVE_SILENT_WORKERS, silent)?;
            for period in CountPeriod::ALL {
                let own = params![period.seconds(), micros(period.kept_since(at))];
                execute(connection, queries::REMOVE_ATTEMPT_COUNTS, own)?;
            }
            Ok(())
        })
        .await
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        self.read(|connection| read_records(connection, "reading workers", queries::WORKERS, []))
            .await
    }

    async fn attempt_counts(&self, filter: &AttemptCountFilter) -> Result<Vec<PeriodCount>> {
        let AttemptCountFilter { period, since, kind, place } = filter.clone();
        let kinds = kind.map_or(UnitKind::ALL.to_vec(), |kind| vec![kind]);
        let kinds = json_list(&kinds.into_iter().map(UnitKind::name).collect::<Vec<_>>());
        self.read(move |connection| {
            let own = params![period.seconds(), kinds, place, micros(since)];
            read_records(connection, "reading counted attempts", queries::ATTEMPT_COUNTS, own)
        })
        .await
    }
}

fn put(connection: &Connection, worker: &WorkerRecord) -> Result<()> {
    let own = params![
        worker.id.0,
        worker.host,
        worker.process,
        worker.version,
        micros(worker.started_at),
        micros(worker.heard_at),
        micros(worker.lease_until),
        worker.draining,
        worker.places_json(),
    ];
    execute(connection, queries::PUT_WORKER, own)
}

fn add(connection: &Connection, count: &AttemptCount) -> Result<()> {
    let own = params![
        count.period.seconds(),
        count.kind.name(),
        count.place,
        micros(count.started_at),
        count.outcome.name(),
        count.attempts,
        i64::try_from(count.took.as_micros()).unwrap_or(i64::MAX),
    ];
    execute(connection, queries::ADD_ATTEMPT_COUNTS, own)
}

fn execute(connection: &Connection, sql: &str, params: impl Params) -> Result<()> {
    let mut statement = connection.prepare_cached(sql).doing(WRITING)?;
    statement.execute(params).doing(WRITING).map(drop)
}
