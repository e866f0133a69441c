//! How fresh data and backfill share the claims of a source (PAR-10).
//!
//! While both lanes have work, each gets its share over time, even if partitions are claimed one by one. Capacity
//! that one lane leaves unused goes to the other and is not owed back.

use std::sync::{Mutex, PoisonError};

use redrive_store::{BackfillShare, Lane};

/// The most that a lane can be behind or ahead, in partitions. A lane that was empty for a day does not get
/// the day's share afterwards.
const MAX_DEBT: f64 = 1.0;

#[derive(Debug)]
pub(crate) struct LaneShares {
    backfill_share: f64,
    /// See [`BackfillShare::owed`].
    owed: Mutex<f64>,
}

impl LaneShares {
    pub(crate) fn new(backfill_share: f64) -> Self {
        Self { backfill_share, owed: Mutex::new(0.0) }
    }

    /// What backfill gets of the next claim.
    pub(crate) fn of_backfill(&self) -> BackfillShare {
        BackfillShare { share: self.backfill_share, owed: *self.owed() }
    }

    /// Records the lanes of the claimed partitions. Fewer partitions than `limit`, which is what the gates allowed, mean that both
    /// lanes are empty, so nothing is owed.
    pub(crate) fn record_claim(&self, limit: u32, lanes: impl IntoIterator<Item = Lane>) {
        let (mut claimed, mut backfill) = (0_u32, 0_u32);
        for lane in lanes {
            claimed += 1;
            backfill += u32::from(lane == Lane::Backfill);
        }
        let owed = self.backfill_share * f64::from(claimed) - f64::from(backfill);
        let mut debt = self.owed();
        *debt = if claimed < limit { 0.0 } else { (*debt + owed).clamp(-MAX_DEBT, MAX_DEBT) };
    }

    fn owed(&self) -> std::sync::MutexGuard<'_, f64> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
