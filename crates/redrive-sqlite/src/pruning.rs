//! Implements [`Pruning`].

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{RunId, SampleId, SampleStatus};
use redrive_store::{
    AttemptRecord, ExportedUnit, LedgerPlace, PruneFilter, Pruned, PrunedSamples, Pruning,
    ReadColumn, Result, RowReader, RunRecord, SampleRecord, UnitKind,
};
use rusqlite::{Connection, params};

use crate::{
    SqliteStore,
    columns::{json_ids, micros, read_records, read_rows},
    error::Doing,
    queries,
};

const LOOKING: &str = "looking for what may be pruned";
const PRUNING: &str = "pruning";

#[async_trait]
impl Pruning for SqliteStore {
    async fn prunable_runs(
        &self,
        filter: &PruneFilter,
        after: RunId,
        limit: u32,
    ) -> Result<Vec<RunRecord>> {
        let PruneFilter { before, queue, .. } = filter.clone();
        self.read(move |connection| {
            let params = params![micros(before), queue, after.0, limit];
            read_records(connection, LOOKING, queries::PRUNABLE_RUNS, params)
        })
        .await
    }

    async fn prunable_samples(
        &self,
        filter: &PruneFilter,
        after: SampleId,
        limit: u32,
    ) -> Result<Vec<SampleRecord>> {
        let PruneFilter { before, pipeline, .. } = filter.clone();
        self.read(move |connection| {
            let params = params![micros(before), pipeline, after.0, limit];
            read_records(connection, LOOKING, queries::PRUNABLE_SAMPLES, params)
        })
        .await
    }

    async fn count_prunable_runs(&self, filter: &PruneFilter) -> Result<u64> {
        self.count(queries::COUNT_PRUNABLE_RUNS, filter.before, filter.queue.clone()).await
    }

    async fn count_prunable_samples(&self, filter: &PruneFilter) -> Result<u64> {
        self.count(queries::COUNT_PRUNABLE_SAMPLES, filter.before, filter.pipeline.clone()).await
    }

    async fn attempts_at(
        &self,
        kind: UnitKind,
        ids: &[i64],
        after: &LedgerPlace,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        let (ids, LedgerPlace { id, stage, attempt }) =
            (json_ids(ids.iter().copied()), after.clone());
        self.read(move |connection| {
            let params = params![kind.name(), ids, id, stage, attempt.0, limit];
            read_records(connection, LOOKING, queries::ATTEMPTS_AT, params)
        })
        .await
    }

    async fn prune_runs(
        &self,
        key: &str,
        filter: &PruneFilter,
        runs: &[ExportedUnit],
    ) -> Result<Pruned> {
        let (key, filter, runs) = (key.to_owned(), filter.clone(), runs.to_vec());
        let pruned = self
            .write(move |connection| {
                pruning(connection, &key, || remove_runs(connection, &filter, &runs))
            })
            .await?;
        redrive_store::failpoint!("sqlite.prune.committed");
        Ok(pruned)
    }

    async fn prune_samples(
        &self,
        key: &str,
        filter: &PruneFilter,
        samples: &[ExportedUnit],
    ) -> Result<Pruned> {
        let (key, filter, samples) = (key.to_owned(), filter.clone(), samples.to_vec());
        let pruned = self
            .write(move |connection| {
                pruning(connection, &key, || remove_samples(connection, &filter, &samples))
            })
            .await?;
        redrive_store::failpoint!("sqlite.prune_samples.committed");
        Ok(pruned)
    }
}

impl SqliteStore {
    async fn count(&self, sql: &'static str, before: Timestamp, of: Option<String>) -> Result<u64> {
        self.read(move |connection| {
            let mut counts = read_records(connection, LOOKING, sql, params![micros(before), of])?;
            Ok(counts.pop().unwrap_or_default())
        })
        .await
    }
}

/// Deletes rows while the triggers of the ledger allow deletion. An error rolls everything back.
fn pruning(
    connection: &Connection,
    key: &str,
    remove: impl FnOnce() -> Result<Pruned>,
) -> Result<Pruned> {
    connection
        .prepare_cached(queries::BEGIN_PRUNING)
        .doing(PRUNING)?
        .execute([key])
        .doing(PRUNING)?;
    let pruned = remove()?;
    redrive_store::failpoint!("sqlite.prune.rows");
    connection.prepare_cached(queries::END_PRUNING).doing(PRUNING)?.execute([]).doing(PRUNING)?;
    Ok(pruned)
}

fn remove_runs(
    connection: &Connection,
    filter: &PruneFilter,
    runs: &[ExportedUnit],
) -> Result<Pruned> {
    let mut statement = connection.prepare_cached(queries::PRUNE_RUNS).doing(PRUNING)?;
    let mut pruned = Pruned::default();
    for ExportedUnit { id, attempts, epoch } in runs {
        let params = params![micros(filter.before), filter.queue, id, attempts, epoch.0];
        if statement.execute(params).doing(PRUNING)? > 0 {
            pruned.units += 1;
            pruned.attempts += remove_attempts(connection, UnitKind::Run, *id)?;
        }
    }
    Ok(pruned)
}

fn remove_samples(
    connection: &Connection,
    filter: &PruneFilter,
    samples: &[ExportedUnit],
) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    let mut of_runs: BTreeMap<i64, PrunedSamples> = BTreeMap::new();
    for ExportedUnit { id, attempts, epoch } in samples {
        let params = params![micros(filter.before), filter.pipeline, id, attempts, epoch.0];
        let gone = read_rows(connection, PRUNING, queries::PRUNE_SAMPLES, params, |row| {
            Ok((row.get()?, row.named("status", SampleStatus::from_name)?))
        })?;
        for (run, status) in gone {
            let counts = of_runs.entry(run).or_default();
            match status {
                SampleStatus::Succeeded => counts.succeeded += 1,
                SampleStatus::Skipped => counts.skipped += 1,
                SampleStatus::Dlq => counts.dlq += 1,
                SampleStatus::Pending => {}
            }
            pruned.units += 1;
            pruned.attempts += remove_attempts(connection, UnitKind::Sample, *id)?;
        }
    }
    for (run, PrunedSamples { succeeded, skipped, dlq }) in of_runs {
        connection
            .prepare_cached(queries::COUNT_PRUNED_SAMPLES)
            .doing(PRUNING)?
            .execute(params![run, succeeded, skipped, dlq])
            .doing(PRUNING)?;
    }
    Ok(pruned)
}

fn remove_attempts(connection: &Connection, kind: UnitKind, id: i64) -> Result<u64> {
    let mut statement = connection.prepare_cached(queries::PRUNE_ATTEMPTS).doing(PRUNING)?;
    let removed = statement.execute(params![kind.name(), id]).doing(PRUNING)?;
    Ok(removed as u64)
}
