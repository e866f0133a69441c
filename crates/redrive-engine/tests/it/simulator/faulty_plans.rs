//! Plans through the way to the store.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{PlanBatch, PlanId};
use redrive_store::{
    LeaseRef, NewPlan, Operator, PlanChange, PlanClaim, PlanEnd, PlanOrder, PlanOutcome,
    PlanOutcomeCount, PlanRecord, PlanUnit, PlanUnitCount, PlanUnitRecord, PlannedUnit, Plans,
    Result, UnitKind, Written,
};

use super::{faulty_store::FaultyStore, log::What, plans::PlanSnapshot};

impl FaultyStore {
    async fn snapshot(&self, id: PlanId) -> Result<Option<PlanSnapshot>> {
        PlanSnapshot::read(&*self.inner, id).await
    }
}

#[async_trait]
impl Plans for FaultyStore {
    async fn create_plan(&self, plan: &NewPlan) -> Result<PlanId> {
        self.call("create_plan", self.inner.create_plan(plan)).await
    }

    async fn add_plan_units(&self, id: PlanId, units: &[PlannedUnit]) -> Result<Written> {
        self.call("add_plan_units", self.inner.add_plan_units(id, units)).await
    }

    async fn freeze_plan(&self, id: PlanId, at: Timestamp) -> Result<Written> {
        self.call("freeze_plan", async {
            let written = self.inner.freeze_plan(id, at).await?;
            if let (Written::Applied, Some(plan)) = (written, self.snapshot(id).await?) {
                self.note(What::Plan(plan.frozen()));
            }
            Ok(written)
        })
        .await
    }

    async fn discard_plan(&self, id: PlanId, limit: u32, by: &Operator) -> Result<bool> {
        self.call("discard_plan", self.inner.discard_plan(id, limit, by)).await
    }

    async fn plans_by_id(&self, ids: &[PlanId]) -> Result<Vec<PlanRecord>> {
        self.call("plans_by_id", self.inner.plans_by_id(ids)).await
    }

    async fn plans_page(&self, before: PlanId, limit: u32) -> Result<Vec<PlanRecord>> {
        self.call("plans_page", self.inner.plans_page(before, limit)).await
    }

    async fn live_plans(&self, limit: u32) -> Result<Vec<PlanRecord>> {
        self.call("live_plans", self.inner.live_plans(limit)).await
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

    async fn count_plan_units(&self, id: PlanId) -> Result<Vec<PlanUnitCount>> {
        self.call("count_plan_units", self.inner.count_plan_units(id)).await
    }

    async fn plan_outcomes(&self, id: PlanId, periods: u32) -> Result<Vec<PlanOutcomeCount>> {
        self.call("plan_outcomes", self.inner.plan_outcomes(id, periods)).await
    }

    async fn units_by_id(&self, kind: UnitKind, ids: &[i64]) -> Result<Vec<PlanUnit>> {
        self.call("units_by_id", self.inner.units_by_id(kind, ids)).await
    }

    async fn refuse_plan_units(
        &self,
        lease: LeaseRef,
        refusals: &[(i64, String)],
    ) -> Result<Written> {
        self.call("refuse_plan_units", self.inner.refuse_plan_units(lease, refusals)).await
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
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        self.call("step_plan", async {
            let before = self.snapshot(PlanId(lease.id)).await?;
            let stepped = match &self.mutant {
                Some(mutant) => mutant.step_plan(&*self.inner, lease, batch, at).await?,
                None => self.inner.step_plan(lease, batch, at).await?,
            };
            let after = self.snapshot(PlanId(lease.id)).await?;
            let news = before.zip(after).and_then(|(before, after)| before.stepped(&after));
            news.into_iter().for_each(|news| self.note(What::Plan(news)));
            Ok(stepped)
        })
        .await
    }

    async fn settle_plan(
        &self,
        lease: LeaseRef,
        after: i64,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<(PlanRecord, Option<i64>)>> {
        self.call("settle_plan", async {
            let settled = self.inner.settle_plan(lease, after, limit, at).await?;
            Ok(match &self.mutant {
                Some(mutant) => settled.map(|(plan, next)| (mutant.settled(plan), next)),
                None => settled,
            })
        })
        .await
    }

    async fn undo_plan(
        &self,
        lease: LeaseRef,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        self.call("undo_plan", async {
            let before = self.snapshot(PlanId(lease.id)).await?;
            let undone = match &self.mutant {
                Some(mutant) => mutant.undo_plan(&*self.inner, lease, limit, at).await?,
                None => self.inner.undo_plan(lease, limit, at).await?,
            };
            let after = self.snapshot(PlanId(lease.id)).await?;
            if let Some((before, after)) = before.zip(after) {
                let news = before.returned(&after, &*self.inner).await?;
                news.into_iter().for_each(|news| self.note(What::Plan(news)));
            }
            Ok(undone)
        })
        .await
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
