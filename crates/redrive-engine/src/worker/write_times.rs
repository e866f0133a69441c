//! A histogram of how long the store takes to write results, for the metrics of one engine.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use redrive_store::TIME_BOUNDS_US;

/// Counts writes of results by how long they took.
#[derive(Debug, Default)]
pub struct WriteTimes {
    /// The number of writes that reached none, one, two … of [`TIME_BOUNDS_US`].
    counts: [AtomicU64; TIME_BOUNDS_US.len() + 1],
    micros: AtomicU64,
}

impl WriteTimes {
    pub(crate) fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let reached = TIME_BOUNDS_US.iter().filter(|bound| micros >= **bound).count();
        if let Some(count) = self.counts.get(reached) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The number of writes by how many of [`TIME_BOUNDS_US`] they reached, and the seconds of all writes together.
    pub fn read(&self) -> ([u64; TIME_BOUNDS_US.len() + 1], f64) {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        (counts, self.micros.load(Ordering::Relaxed) as f64 / 1e6)
    }
}
