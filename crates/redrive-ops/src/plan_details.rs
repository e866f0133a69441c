//! One plan in detail: its units counted by cause, its canary, and its outcomes over time.

use redrive_store::{MAX_PAGE, PlanRecord, Result};

use crate::{
    Ops,
    views::{PlanCanaryView, PlanPeriodView, PlanView},
};

/// About so many periods of outcomes.
const PERIODS: u32 = 60;

impl Ops {
    /// Reads counts and the units of the canary, not the other units.
    pub async fn plan_view(&self, plan: &PlanRecord) -> Result<PlanView> {
        let store = self.store();
        let units = store.plan_unit_counts(plan.id).await?;
        let outcomes = match plan.counts.recovered + plan.counts.failed() {
            0 => Vec::new(),
            _ => store.plan_outcomes(plan.id, PERIODS).await?,
        };
        Ok(PlanView {
            waits_for: self.plan_waits(plan).await?,
            canary_units: self.canary(plan).await?,
            outcomes: PlanPeriodView::of(outcomes),
            ..PlanView::new(plan, units, store.now())
        })
    }

    async fn canary(&self, plan: &PlanRecord) -> Result<Option<PlanCanaryView>> {
        let size = plan.settings.canary().filter(|_| plan.started_at.is_some());
        let Some(mut canary) = size.map(PlanCanaryView::new) else { return Ok(None) };
        loop {
            let page =
                self.store().plan_units_page(plan.id, None, canary.last_unit, MAX_PAGE).await?;
            let taken = page.iter().take_while(|unit| canary.take(unit)).count();
            if taken < MAX_PAGE as usize {
                return Ok(Some(canary.judged(plan)));
            }
        }
    }
}
