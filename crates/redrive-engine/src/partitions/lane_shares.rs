//! How fresh data and backfill share a source (PAR-10).
//!
//! While there is both, each gets its share over time, also if partitions are taken one by one. What one
//! lane leaves, the other gets; that is no debt.

use std::sync::{Mutex, PoisonError};

use redrive_store::Lane;

/// The most that a lane can be behind or ahead, in partitions. Whoever had nothing to do for a day
/// cannot ask for the day.
const MAX_DEBT: f64 = 1.0;

/// Counts what the lanes got.
#[derive(Debug)]
pub(crate) struct LaneShares {
    backfill_share: f64,
    /// What backfill should have got and has not.
    owed: Mutex<f64>,
}

impl LaneShares {
    pub(crate) fn new(backfill_share: f64) -> Self {
        Self { backfill_share, owed: Mutex::new(0.0) }
    }

    /// How many of so many go to backfill.
    pub(crate) fn backfill_quota(&self, limit: u32) -> u32 {
        let due = *self.owed() + self.backfill_share * f64::from(limit);
        // What a float loses in adding must not cost a partition.
        ((due + 1e-9).floor().max(0.0) as u32).min(limit)
    }

    /// Notes what was taken of so many that were asked for. If not all were there, both lanes are empty
    /// and nothing is owed.
    pub(crate) fn record_claim(&self, limit: u32, lanes: impl IntoIterator<Item = Lane>) {
        let (mut taken, mut backfill) = (0_u32, 0_u32);
        for lane in lanes {
            taken += 1;
            backfill += u32::from(lane == Lane::Backfill);
        }
        let owed = self.backfill_share * f64::from(taken) - f64::from(backfill);
        let mut debt = self.owed();
        *debt = if taken < limit { 0.0 } else { (*debt + owed).clamp(-MAX_DEBT, MAX_DEBT) };
    }

    fn owed(&self) -> std::sync::MutexGuard<'_, f64> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
