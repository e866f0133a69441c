//! What may go, and its going.

use async_trait::async_trait;
use redrive_core::{RunId, SampleId};
use redrive_store::{
    AttemptRecord, Error, ExportedUnit, LedgerPlace, PruneFilter, Pruned, Pruning, Result,
    RunRecord, SampleRecord, UnitKind,
};
use tokio_postgres::types::ToSql;

use crate::{
    PostgresStore,
    batch::each,
    columns::{Micros, read_rows},
    ledger::read_attempt,
    queries,
    runs::read_run,
    samples::read_sample,
    session::{Command, Values},
};

const LOOKING: &str = "looking for what may be pruned";
const PRUNING: &str = "pruning";

#[async_trait]
impl Pruning for PostgresStore {
    async fn prunable_runs(
        &self,
        filter: &PruneFilter,
        after: RunId,
        limit: u32,
    ) -> Result<Vec<RunRecord>> {
        let values: [&(dyn ToSql + Sync); 4] =
            [&Micros(filter.before), &filter.queue, &after.0, &i64::from(limit)];
        let rows = self.session(LOOKING).await?.query(queries::PRUNABLE_RUNS, &values).await?;
        read_rows(&rows, LOOKING, read_run)
    }

    async fn prunable_samples(
        &self,
        filter: &PruneFilter,
        after: SampleId,
        limit: u32,
    ) -> Result<Vec<SampleRecord>> {
        let values: [&(dyn ToSql + Sync); 4] =
            [&Micros(filter.before), &filter.pipeline, &after.0, &i64::from(limit)];
        let rows = self.session(LOOKING).await?.query(queries::PRUNABLE_SAMPLES, &values).await?;
        read_rows(&rows, LOOKING, read_sample)
    }

    async fn count_prunable_runs(&self, filter: &PruneFilter) -> Result<u64> {
        let values: [&(dyn ToSql + Sync); 2] = [&Micros(filter.before), &filter.queue];
        self.count(queries::COUNT_PRUNABLE_RUNS, &values).await
    }

    async fn count_prunable_samples(&self, filter: &PruneFilter) -> Result<u64> {
        let values: [&(dyn ToSql + Sync); 2] = [&Micros(filter.before), &filter.pipeline];
        self.count(queries::COUNT_PRUNABLE_SAMPLES, &values).await
    }

    async fn attempts_at(
        &self,
        kind: UnitKind,
        ids: &[i64],
        after: &LedgerPlace,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        let LedgerPlace { id, stage, attempt } = after;
        let (attempt, limit) = (i64::from(attempt.0), i64::from(limit));
        let values: [&(dyn ToSql + Sync); 6] = [&kind.name(), &ids, id, stage, &attempt, &limit];
        let rows = self.session(LOOKING).await?.query(queries::ATTEMPTS_AT, &values).await?;
        read_rows(&rows, LOOKING, read_attempt)
    }

    async fn prune_runs(
        &self,
        key: &str,
        filter: &PruneFilter,
        runs: &[ExportedUnit],
    ) -> Result<Pruned> {
        let pruned = remove(self, queries::PRUNE_RUNS, key, filter, &filter.queue, runs).await?;
        redrive_store::failpoint!("postgres.prune.committed");
        Ok(pruned)
    }

    async fn prune_samples(
        &self,
        key: &str,
        filter: &PruneFilter,
        samples: &[ExportedUnit],
    ) -> Result<Pruned> {
        let pruned =
            remove(self, queries::PRUNE_SAMPLES, key, filter, &filter.pipeline, samples).await?;
        redrive_store::failpoint!("postgres.prune_samples.committed");
        Ok(pruned)
    }
}

impl PostgresStore {
    async fn count(&self, sql: &str, values: Values<'_>) -> Result<u64> {
        let rows = self.session(LOOKING).await?.query(sql, values).await?;
        let counts = read_rows(&rows, LOOKING, |row| row.count("count"))?;
        Ok(counts.into_iter().next().unwrap_or_default())
    }
}

/// Removes units of a queue or pipeline, or of any, in a transaction in which the ledger lets rows go.
async fn remove(
    store: &PostgresStore,
    sql: &str,
    key: &str,
    filter: &PruneFilter,
    of: &Option<String>,
    units: &[ExportedUnit],
) -> Result<Pruned> {
    let values: [&(dyn ToSql + Sync); 5] = [
        &Micros(filter.before),
        of,
        &each(units, |unit| unit.id),
        &each(units, |unit| i64::from(unit.attempts)),
        &each(units, |unit| unit.epoch.0),
    ];
    let commands = [
        Command { sql: queries::BEGIN_PRUNING, values: &[&key] },
        Command { sql, values: &values },
    ];
    let mut answers = store.session(PRUNING).await?.transaction(&commands).await?;
    let counts = read_rows(&answers.pop().unwrap_or_default(), PRUNING, |row| {
        Ok(Pruned { units: row.count("units")?, attempts: row.count("attempts")? })
    })?;
    let nothing = || Error::misuse(PRUNING, "the server did not say how much it removed");
    counts.into_iter().next().ok_or_else(nothing)
}
