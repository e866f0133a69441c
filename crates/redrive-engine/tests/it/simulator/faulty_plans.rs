//! Plans through the way to the store.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{PlanBatch, PlanId};
use redrive_store::{
    LeaseRef, NewPlan, Operator, PlanChange, PlanClaim, PlanEnd, PlanOrder, PlanOutcome,
    PlanRecord, PlanTime, PlanUnitCount, PlanUnitRecord, PlannedUnit, Plans, Result, Written,
};

use super::faulty_store::FaultyStore;

#[async_trait]
impl Plans for FaultyStore {
    async fn create_plan(&self, plan: &NewPlan) -> Result<PlanId> {
        self.call("create_plan", self.inner.create_plan(plan)).await
    }

    async fn add_plan_units(&self, id: PlanId, units: &[PlannedUnit]) -> Result<Written> {
        self.call("add_plan_units", self.inner.add_plan_units(id, units)).await
    }

    async fn freeze_plan(&self, id: PlanId, at: Timestamp) -> Result<Written> {
        self.call("freeze_plan", self.inner.freeze_plan(id, at)).await
    }

    async fn discard_plan(&self, id: PlanId, limit: u32) -> Result<bool> {
        self.call("discard_plan", self.inner.discard_plan(id, limit)).await
    }

    async fn plans_by_id(&self, ids: &[PlanId]) -> Result<Vec<PlanRecord>> {
        self.call("plans_by_id", self.inner.plans_by_id(ids)).await
    }

    async fn plans_page(&self, before: PlanId, limit: u32) -> Result<Vec<PlanRecord>> {
        self.call("plans_page", self.inner.plans_page(before, limit)).await
    }

    async fn plan_units_page(
        &self,
        id: PlanId,
        outcome: Option<PlanOutcome>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PlanUnitRecord>> {
        self.call("plan_units_page", self.inner.plan_units_page(id, outcome, after, limit)).await
    }

    async fn plan_unit_counts(&self, id: PlanId) -> Result<Vec<PlanUnitCount>> {
        self.call("plan_unit_counts", self.inner.plan_unit_counts(id)).await
    }

    async fn change_plan(
        &self,
        id: PlanId,
        order: &PlanOrder,
        by: &Operator,
    ) -> Result<PlanChange> {
        self.call("change_plan", self.inner.change_plan(id, order, by)).await
    }

    async fn claim_plans(&self, claim: &PlanClaim) -> Result<Vec<PlanRecord>> {
        self.call("claim_plans", self.inner.claim_plans(claim)).await
    }

    async fn renew_plan(&self, lease: LeaseRef, until: Timestamp) -> Result<Option<PlanRecord>> {
        self.call("renew_plan", self.inner.renew_plan(lease, until)).await
    }

    async fn release_plan(&self, lease: LeaseRef) -> Result<Written> {
        self.call("release_plan", self.inner.release_plan(lease)).await
    }

    async fn step_plan(
        &self,
        lease: LeaseRef,
        batch: &PlanBatch,
        time: PlanTime,
    ) -> Result<Option<PlanRecord>> {
        self.call("step_plan", self.inner.step_plan(lease, batch, time)).await
    }

    async fn settle_plan(
        &self,
        lease: LeaseRef,
        after: i64,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<(PlanRecord, Option<i64>)>> {
        self.call("settle_plan", self.inner.settle_plan(lease, after, limit, at)).await
    }

    async fn undo_plan(
        &self,
        lease: LeaseRef,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        self.call("undo_plan", self.inner.undo_plan(lease, limit, at)).await
    }

    async fn end_plan(
        &self,
        lease: LeaseRef,
        end: &PlanEnd,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        self.call("end_plan", self.inner.end_plan(lease, end, at)).await
    }
}
