//! Names for runs of partitions: unique, and in the order of time.
//!
//! They are UUIDs of version 7: milliseconds, then a count that goes on within a millisecond, then
//! random. What is drawn here comes from the worker's own random name, so that a simulation with given
//! names replays exactly, and no draw can fail later than the start.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use redrive_core::PartitionRunId;
use redrive_store::WorkerId;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The bits that count within a millisecond.
const COUNT_BITS: u32 = 12;

/// Makes run ids for one worker and source.
#[derive(Debug)]
pub(crate) struct RunIds {
    seed: u64,
    /// Milliseconds and count of the last one.
    last: Mutex<u64>,
}

impl RunIds {
    pub(crate) fn new(worker: &WorkerId, source: &str) -> Self {
        let seed = xxh3_64_with_seed(source.as_bytes(), xxh3_64(worker.0.as_bytes()));
        Self { seed, last: Mutex::new(0) }
    }

    /// Ids for runs that begin now, in their order. A clock that was set back does not take the order
    /// back, and a crowd of them runs ahead of it.
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
