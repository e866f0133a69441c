//! A plan that an executor holds, and the count of those at which it works.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use jiff::Timestamp;
use redrive_core::{PlanStatus, PlanStep, PlanTiming};
use redrive_retry::Stop;
use redrive_store::PlanRecord;

use super::settling::Settling;

/// A plan under this executor's lease.
pub(super) struct HeldPlan {
    pub(super) plan: PlanRecord,
    /// When the plan was last read and its lease extended, on the store's clock.
    pub(super) read_at: Timestamp,
    pub(super) renewed_at: Timestamp,
    /// The pace as this executor measured it, after its last step was committed.
    pub(super) next_at: Option<Timestamp>,
    pub(super) settling: Settling,
    /// Errors of the store since it answered last.
    pub(super) errors: u32,
    /// Whether its list was made with the configuration of this executor.
    pub(super) is_own: bool,
    /// Ends what may take long.
    pub(super) stop: Option<Stop>,
}

impl HeldPlan {
    /// What to do if the plan runs. Times that another executor stored count, unless they are of another clock.
    pub(super) fn next_step(&self, now: Timestamp) -> Option<PlanStep> {
        let PlanRecord { settings, counts, timing, status, .. } = &self.plan;
        let known = settings.timing_at(timing, now);
        let stored = timing.next_at.filter(|at| known.next_at == Some(*at));
        let timing = PlanTiming { next_at: stored.max(self.next_at), ..known };
        (*status == PlanStatus::Running).then(|| settings.next_step(counts, &timing, now))
    }

    /// Whether units are changed or returned; else their outcomes are only watched.
    pub(super) fn is_executed(&self) -> bool {
        self.plan.status == PlanStatus::Running || self.plan.undo_unit.is_some()
    }

    /// Takes over what the store answered; false if the lease is lost.
    pub(super) fn read(&mut self, plan: Option<PlanRecord>, now: Timestamp) -> bool {
        let Some(plan) = plan else { return false };
        (self.plan, self.read_at) = (plan, now);
        true
    }
}

/// Counts a plan while its executor works at it.
pub(super) struct Working {
    all: Arc<AtomicUsize>,
    is_counted: bool,
}

impl Working {
    pub(super) fn new(all: Arc<AtomicUsize>) -> Self {
        Self { all, is_counted: false }
    }

    pub(super) fn set(&mut self, works: bool) {
        match (std::mem::replace(&mut self.is_counted, works), works) {
            (false, true) => _ = self.all.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.all.fetch_sub(1, Ordering::Relaxed),
            (true, true) | (false, false) => {}
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.set(false);
    }
}
