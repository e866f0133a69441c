//! What became of the units of a plan: of its canary, and over time.

use jiff::Timestamp;
use redrive_store::{PlanOutcome, PlanOutcomeCount, PlanRecord, PlanUnitRecord};
use serde::Serialize;

/// The units that a plan changed first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PlanCanary))]
pub struct PlanCanaryView {
    /// Units that were asked for.
    pub size: u64,
    /// More than that if others changed some of them before they ended: further units took their places.
    pub changed: u64,
    pub pending: u64,
    pub recovered: u64,
    pub failed_again: u64,
    /// `passed`, `failed`, or `undecided`.
    pub verdict: &'static str,
    /// The last unit that the plan came to for its canary.
    #[serde(skip)]
    pub last_unit: i64,
}

impl PlanCanaryView {
    pub(crate) fn new(size: u64) -> Self {
        Self {
            size,
            changed: 0,
            pending: 0,
            recovered: 0,
            failed_again: 0,
            verdict: "undecided",
            last_unit: 0,
        }
    }

    /// Counts the next unit of the plan. False if the canary ended before this unit.
    pub(crate) fn take(&mut self, unit: &PlanUnitRecord) -> bool {
        let is_open = self.tried() < self.size;
        let Some(outcome) = unit.outcome.filter(|_| is_open) else { return false };
        self.last_unit = unit.unit_id;
        self.changed += u64::from(outcome.is_change());
        match outcome {
            PlanOutcome::Pending => self.pending += 1,
            PlanOutcome::Recovered => self.recovered += 1,
            PlanOutcome::SameCause | PlanOutcome::OtherCause => self.failed_again += 1,
            PlanOutcome::Skipped
            | PlanOutcome::Applied
            | PlanOutcome::Superseded
            | PlanOutcome::Undone => {}
        }
        true
    }

    /// Units that have an outcome, or will have one.
    fn tried(&self) -> u64 {
        self.pending + self.recovered + self.failed_again
    }

    pub(crate) fn judged(self, plan: &PlanRecord) -> Self {
        let ended = self.recovered + self.failed_again;
        let has_more = self.tried() < self.size && plan.counts.rest() > 0;
        let is_open = self.pending > 0 || ended == 0 || has_more;
        let of = if is_open { self.size } else { ended };
        let limit = plan.settings.abort_if();
        let verdict = match limit.is_some_and(|limit| limit.is_reached(self.failed_again, of)) {
            true => "failed",
            false if is_open => "undecided",
            false => "passed",
        };
        Self { verdict, ..self }
    }
}

/// Units of a plan that were tried again and ended in a period.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PlanPeriod))]
pub struct PlanPeriodView {
    pub from: Timestamp,
    /// How long the period is.
    pub seconds: u64,
    pub recovered: u64,
    pub same_cause: u64,
    pub other_cause: u64,
}

impl PlanPeriodView {
    /// `counts` are in the order of their periods.
    pub(crate) fn of(counts: Vec<PlanOutcomeCount>) -> Vec<Self> {
        let mut periods: Vec<Self> = Vec::new();
        for PlanOutcomeCount { from, seconds, outcome, units } in counts {
            if periods.last().is_none_or(|last| last.from != from) {
                periods.push(Self { from, seconds, recovered: 0, same_cause: 0, other_cause: 0 });
            }
            let Some(period) = periods.last_mut() else { continue };
            match outcome {
                PlanOutcome::Recovered => period.recovered += units,
                PlanOutcome::SameCause => period.same_cause += units,
                _ => period.other_cause += units,
            }
        }
        periods
    }
}
