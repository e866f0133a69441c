//! Finding and removing units that may be pruned.

use crate::{
    PostgresStore,
    batch::each,
    bound_query::{BoundQuery, bind},
    columns::{Micros, read_records, read_rows},
    journal::JournalColumns,
    plans::{begin_with_plan, commit_plan, remove_units},
    queries,
};
use async_trait::async_trait;
use redrive_core::{PlanId, RunId, SampleId};
use redrive_store::{
    AttemptRecord, Error, ExportedUnit, LedgerPlace, PlanAction, PlanPrune, PlanRecord,
    PruneFilter, Pruned, PrunedPlan, Pruning, Result, RowReader, RunRecord, SampleRecord, UnitKind,
};

const READING: &str = "reading prunable units";
const PRUNING: &str = "pruning";

#[async_trait]
impl Pruning for PostgresStore {
    async fn prunable_runs(
        &self,
        filter: &PruneFilter,
        after: RunId,
        limit: u32,
    ) -> Result<Vec<RunRecord>> {
        let page = bind!(
            queries::PRUNABLE_RUNS,
            before => &Micros(filter.before),
            queue => &filter.queue,
            after => &after.0,
            limit => &i64::from(limit),
        );
        let rows = self.session(READING).await?.query(page).await?;
        read_records(&rows, READING)
    }

    async fn prunable_samples(
        &self,
        filter: &PruneFilter,
        after: SampleId,
        limit: u32,
    ) -> Result<Vec<SampleRecord>> {
        let page = bind!(
            queries::PRUNABLE_SAMPLES,
            before => &Micros(filter.before),
            pipeline => &filter.pipeline,
            after => &after.0,
            limit => &i64::from(limit),
        );
        let rows = self.session(READING).await?.query(page).await?;
        read_records(&rows, READING)
    }

    async fn prunable_plans(
        &self,
        filter: &PruneFilter,
        after: PlanId,
        limit: u32,
    ) -> Result<Vec<PlanRecord>> {
        let page = bind!(
            queries::PRUNABLE_PLANS,
            before => &Micros(filter.before),
            known => &&PlanAction::NAMES[..],
            after => &after.0,
            limit => &i64::from(limit),
        );
        let rows = self.session(READING).await?.query(page).await?;
        read_records(&rows, READING)
    }

    async fn count_prunable_plans(&self, filter: &PruneFilter) -> Result<u64> {
        self.count(bind!(
            queries::COUNT_PRUNABLE_PLANS,
            before => &Micros(filter.before),
            known => &&PlanAction::NAMES[..],
        ))
        .await
    }

    async fn count_prunable_runs(&self, filter: &PruneFilter) -> Result<u64> {
        self.count(bind!(
            queries::COUNT_PRUNABLE_RUNS,
            before => &Micros(filter.before),
            queue => &filter.queue,
        ))
        .await
    }

    async fn count_prunable_samples(&self, filter: &PruneFilter) -> Result<u64> {
        self.count(bind!(
            queries::COUNT_PRUNABLE_SAMPLES,
            before => &Micros(filter.before),
            pipeline => &filter.pipeline,
        ))
        .await
    }

    async fn attempts_at(
        &self,
        kind: UnitKind,
        ids: &[i64],
        after: &LedgerPlace,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        let LedgerPlace { id, stage, attempt } = after;
        let page = bind!(
            queries::ATTEMPTS_AT,
            kind => &kind.name(),
            unit_ids => &ids,
            after_unit => id,
            after_stage => stage,
            after_attempt => &i64::from(attempt.0),
            limit => &i64::from(limit),
        );
        let rows = self.session(READING).await?.query(page).await?;
        read_records(&rows, READING)
    }

    async fn prune_runs(
        &self,
        key: &str,
        filter: &PruneFilter,
        runs: &[ExportedUnit],
    ) -> Result<Pruned> {
        let ids = each(runs, |run| run.id);
        let remove_runs = bind!(
            queries::PRUNE_RUNS,
            before => &Micros(filter.before),
            queue => &filter.queue,
            id => &ids,
            attempts => &each(runs, |run| i64::from(run.attempts)),
            epoch => &each(runs, |run| run.epoch.0),
        );
        let lock = bind!(queries::LOCK_RUNS, ids => &ids);
        let pruned = remove(self, key, &[lock, remove_runs]).await?;
        redrive_store::failpoint!("postgres.prune.committed");
        Ok(pruned)
    }

    async fn prune_samples(
        &self,
        key: &str,
        filter: &PruneFilter,
        samples: &[ExportedUnit],
    ) -> Result<Pruned> {
        let remove_samples = bind!(
            queries::PRUNE_SAMPLES,
            before => &Micros(filter.before),
            pipeline => &filter.pipeline,
            id => &each(samples, |sample| sample.id),
            attempts => &each(samples, |sample| i64::from(sample.attempts)),
            epoch => &each(samples, |sample| sample.epoch.0),
        );
        let pruned = remove(self, key, &[remove_samples]).await?;
        redrive_store::failpoint!("postgres.prune_samples.committed");
        Ok(pruned)
    }

    async fn prune_plan(
        &self,
        key: &str,
        filter: &PruneFilter,
        plan: &PlanPrune,
    ) -> Result<PrunedPlan> {
        let PlanPrune { id, epoch, by, limit } = plan;
        let mut session = self.session(PRUNING).await?;
        let plan = begin_with_plan(&mut session, *id).await?;
        let plan = plan.filter(|it| it.is_prunable(filter.before) && it.lease_epoch == *epoch);
        let started = session.query(bind!(queries::PRUNE_STARTED, prune_key => &key)).await?;
        let started: Vec<u64> = read_records(&started, PRUNING)?;
        let (Some(mut plan), [(1..)]) = (plan, &started[..]) else {
            session.commit().await?;
            return Ok(PrunedPlan::Left);
        };
        let entry = plan.prune_entry(key, by);
        let removed = remove_units(&mut session, *id, *limit).await?;
        redrive_store::failpoint!("postgres.prune_plan.units");
        let pruned = if removed.is_empty() {
            let journal = JournalColumns::of([Some(&entry)]);
            let delete = bind!(queries::DELETE_PLAN, id => &id.0);
            let tell = bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal));
            session.commit_all(&[delete, tell]).await?;
            PrunedPlan::Gone
        } else {
            plan.count_pruned(&removed);
            commit_plan(&mut session, &plan, Some(&entry)).await?;
            PrunedPlan::Units(removed.len() as u64)
        };
        redrive_store::failpoint!("postgres.prune_plan.committed");
        Ok(pruned)
    }
}

impl PostgresStore {
    async fn count(&self, query: BoundQuery<'_>) -> Result<u64> {
        let rows = self.session(READING).await?.query(query).await?;
        Ok(read_records(&rows, READING)?.pop().unwrap_or_default())
    }
}

/// Removes units in a transaction in which the ledger accepts deletes.
async fn remove(store: &PostgresStore, key: &str, removals: &[BoundQuery<'_>]) -> Result<Pruned> {
    let allow_deletes = bind!(queries::BEGIN_PRUNING, prune_key => &key);
    let all = [&[allow_deletes], removals].concat();
    let mut results = store.session(PRUNING).await?.transaction(&all).await?;
    let counts = read_rows(&results.pop().unwrap_or_default(), PRUNING, |row| {
        Ok(Pruned { units: row.count("units")?, attempts: row.count("attempts")? })
    })?;
    let no_counts = || Error::misuse(PRUNING, "the server did not return the removed counts");
    counts.into_iter().next().ok_or_else(no_counts)
}
