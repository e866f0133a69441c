//! Pruning through the gate and the weather.

use async_trait::async_trait;
use redrive_core::{PlanId, RunId, SampleId};
use redrive_store::{
    AttemptRecord, ExportedUnit, LedgerPlace, PlanPrune, PlanRecord, PruneFilter, Pruned,
    PrunedPlan, Pruning, Result, RunRecord, SampleRecord, UnitKind,
};

use super::faulty_store::FaultyStore;

#[async_trait]
impl Pruning for FaultyStore {
    async fn prunable_runs(
        &self,
        filter: &PruneFilter,
        after: RunId,
        limit: u32,
    ) -> Result<Vec<RunRecord>> {
        self.call("prunable_runs", self.inner.prunable_runs(filter, after, limit)).await
    }

    async fn prunable_samples(
        &self,
        filter: &PruneFilter,
        after: SampleId,
        limit: u32,
    ) -> Result<Vec<SampleRecord>> {
        self.call("prunable_samples", self.inner.prunable_samples(filter, after, limit)).await
    }

    async fn count_prunable_runs(&self, filter: &PruneFilter) -> Result<u64> {
        self.call("count_prunable_runs", self.inner.count_prunable_runs(filter)).await
    }

    async fn count_prunable_samples(&self, filter: &PruneFilter) -> Result<u64> {
        self.call("count_prunable_samples", self.inner.count_prunable_samples(filter)).await
    }

    async fn attempts_at(
        &self,
        kind: UnitKind,
        ids: &[i64],
        after: &LedgerPlace,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        self.call("attempts_at", self.inner.attempts_at(kind, ids, after, limit)).await
    }

    async fn prune_runs(
        &self,
        key: &str,
        filter: &PruneFilter,
        runs: &[ExportedUnit],
    ) -> Result<Pruned> {
        self.call("prune_runs", self.inner.prune_runs(key, filter, runs)).await
    }

    async fn prune_samples(
        &self,
        key: &str,
        filter: &PruneFilter,
        samples: &[ExportedUnit],
    ) -> Result<Pruned> {
        self.call("prune_samples", self.inner.prune_samples(key, filter, samples)).await
    }

    async fn prunable_plans(
        &self,
        filter: &PruneFilter,
        after: PlanId,
        limit: u32,
    ) -> Result<Vec<PlanRecord>> {
        self.call("prunable_plans", self.inner.prunable_plans(filter, after, limit)).await
    }

    async fn count_prunable_plans(&self, filter: &PruneFilter) -> Result<u64> {
        self.call("count_prunable_plans", self.inner.count_prunable_plans(filter)).await
    }

    async fn prune_plan(
        &self,
        key: &str,
        filter: &PruneFilter,
        plan: &PlanPrune,
    ) -> Result<PrunedPlan> {
        self.call("prune_plan", self.inner.prune_plan(key, filter, plan)).await
    }
}
