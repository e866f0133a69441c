//! How long the store took to write results, for all workers of this process.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use redrive_store::TIME_BOUNDS_US;

/// How many writes reached none, one, two of the bounds, and so on.
static COUNTS: [AtomicU64; TIME_BOUNDS_US.len() + 1] =
    [const { AtomicU64::new(0) }; TIME_BOUNDS_US.len() + 1];

/// How long all of them took, in microseconds.
static MICROS: AtomicU64 = AtomicU64::new(0);

/// Counts a write.
pub(crate) fn wrote(took: Duration) {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let reached = TIME_BOUNDS_US.iter().filter(|bound| micros >= **bound).count();
    if let Some(count) = COUNTS.get(reached) {
        count.fetch_add(1, Ordering::Relaxed);
    }
    MICROS.fetch_add(micros, Ordering::Relaxed);
}

/// How many writes of results reached how many of [`TIME_BOUNDS_US`], and how many seconds all of them took,
/// in this process since it began.
pub fn write_times() -> ([u64; TIME_BOUNDS_US.len() + 1], f64) {
    let counts =
        std::array::from_fn(|at| COUNTS.get(at).map_or(0, |count| count.load(Ordering::Relaxed)));
    (counts, MICROS.load(Ordering::Relaxed) as f64 / 1e6)
}
