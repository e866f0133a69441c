//! Implements [`Pruning`].

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{PlanId, RunId, SampleId, SampleStatus};
use redrive_store::{
    AttemptRecord, ExportedUnit, LedgerPlace, PlanAction, PlanPrune, PlanRecord, PruneFilter,
    Pruned, PrunedPlan, PrunedSamples, Pruning, ReadColumn, Result, RowReader, RunRecord,
    SampleRecord, UnitKind,
};
use rusqlite::{Connection, params};

use crate::{
    SqliteStore,
    columns::{json_ids, json_list, micros, read_records, read_rows},
    error::Doing,
    journal::insert_journal,
    plans::{delete_plan, read_plan, remove_units, write_plan},
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

    async fn prunable_plans(
        &self,
        filter: &PruneFilter,
        after: PlanId,
        limit: u32,
    ) -> Result<Vec<PlanRecord>> {
        let before = filter.before;
        self.read(move |connection| {
            let own = params![micros(before), after.0, limit, json_list(&PlanAction::NAMES)];
            read_records(connection, LOOKING, queries::PRUNABLE_PLANS, own)
        })
        .await
    }

    async fn count_prunable_plans(&self, filter: &PruneFilter) -> Result<u64> {
        let known = Some(json_list(&PlanAction::NAMES));
        self.count(queries::COUNT_PRUNABLE_PLANS, filter.before, known).await
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

    async fn prune_plan(
        &self,
        key: &str,
        filter: &PruneFilter,
        plan: &PlanPrune,
    ) -> Result<PrunedPlan> {
        let (key, before, PlanPrune { id, epoch, by, limit }) =
            (key.to_owned(), filter.before, plan.clone());
        let pruned = self.write(move |connection| {
            let plan = read_plan(connection, id)?;
            let is_archived = |plan: &PlanRecord| plan.lease_epoch == epoch;
            let plan = plan.filter(|plan| plan.is_prunable(before) && is_archived(plan));
            let own = [&key];
            let started: Vec<u64> = read_records(connection, LOOKING, queries::PRUNE_STARTED, own)?;
            let (Some(mut plan), [(1..)]) = (plan, &started[..]) else {
                return Ok(PrunedPlan::Left);
            };
            insert_journal(connection, &plan.prune_entry(&key, &by))?;
            let removed = remove_units(connection, id, limit)?;
            redrive_store::failpoint!("sqlite.prune_plan.units");
            if removed.is_empty() {
                delete_plan(connection, id)?;
                return Ok(PrunedPlan::Gone);
            }
            plan.count_pruned(&removed);
            write_plan(connection, &plan)?;
            Ok(PrunedPlan::Units(removed.len() as u64))
        });
        let pruned = pruned.await?;
        redrive_store::failpoint!("sqlite.prune_plan.committed");
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
    let mut logs = connection.prepare_cached(queries::PRUNE_LOGS).doing(PRUNING)?;
    logs.execute(params![kind.name(), id]).doing(PRUNING)?;
    Ok(removed as u64)
}
