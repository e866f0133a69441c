//! Ids for runs of partitions: unique, and sorted by time.
//!
//! An id is a UUID of version 7: milliseconds, a counter within the millisecond, then random bits. The random
//! bits are derived from the random id of the worker, so a simulation with fixed worker ids replays exactly.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use redrive_core::PartitionRunId;
use redrive_store::WorkerId;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The bits of the counter within a millisecond.
const COUNT_BITS: u32 = 12;

/// Generates run ids for one worker and source.
#[derive(Debug)]
pub(crate) struct RunIds {
    seed: u64,
    /// Milliseconds and counter of the last id.
    last: Mutex<u64>,
}

impl RunIds {
    pub(crate) fn new(worker: &WorkerId, source: &str) -> Self {
        let seed = xxh3_64_with_seed(source.as_bytes(), xxh3_64(worker.0.as_bytes()));
        Self { seed, last: Mutex::new(0) }
    }

    /// Ids in ascending order, greater than all ids before, even if the clock was set back. When a
    /// millisecond has no counter left, ids run ahead of the clock.
    pub(crate) fn generate(&self, count: u32, now: Timestamp) -> Vec<PartitionRunId> {
        let now = u64::try_from(now.as_millisecond()).unwrap_or_default() << COUNT_BITS;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = || {
            *last = now.max(*last + 1);
            self.format_id(*last)
        };
        (0..count).filter_map(|_| next().parse().ok()).collect()
    }

    fn format_id(&self, sequence: u64) -> String {
        let (milliseconds, count) = (sequence >> COUNT_BITS, sequence & ((1 << COUNT_BITS) - 1));
        let random = xxh3_64_with_seed(&sequence.to_le_bytes(), self.seed);
        let (high, low) = (milliseconds >> 16, milliseconds & 0xffff);
        let (variant, node) = (0x8000 | (random >> 48) & 0x3fff, random & 0xffff_ffff_ffff);
        format!("{high:08x}-{low:04x}-7{count:03x}-{variant:04x}-{node:012x}")
    }
}

#[cfg(test)]
mod tests;
