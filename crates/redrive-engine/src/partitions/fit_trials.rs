//! Finds the partition that does not fit on the raw disk.
//!
//! Extractions that write at the same time can fill a disk together, and a disk can be full of other data; neither says
//! anything about one partition. So after a full disk each source extracts one partition at a time. A partition that
//! repeatedly fills the free space, while no other source writes either, fails, counted, and no longer blocks the others.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use redrive_core::PartitionKey;

/// How often a partition may fill the disk alone before it fails.
pub(crate) const MAX_TRIES_ALONE: u32 = 3;

/// Partitions whose tries are counted.
const MAX_KEYS: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct FitTrials(Mutex<Trials>);

#[derive(Debug, Default)]
struct Trials {
    writing: usize,
    started: u64,
    /// Attempts that still have to run alone.
    alone: usize,
    tries: HashMap<PartitionKey, u32>,
}

/// An attempt that may write raw data, until it is dropped.
pub(crate) struct Writing<'a> {
    trials: &'a FitTrials,
    began_alone: bool,
    number: u64,
}

impl FitTrials {
    /// One after a full disk, `usual` otherwise.
    pub(crate) fn concurrency(&self, usual: usize) -> usize {
        if self.lock().alone > 0 { 1 } else { usual }
    }

    pub(crate) fn begin(&self) -> Writing<'_> {
        let mut trials = self.lock();
        trials.writing += 1;
        trials.started += 1;
        Writing { trials: self, began_alone: trials.writing == 1, number: trials.started }
    }

    fn lock(&self) -> MutexGuard<'_, Trials> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writing<'_> {
    /// The disk was full. Returns whether the partition does not fit. `has_room` is whether the disk has room now that
    /// the rows of this attempt are removed. The next `usual` attempts run alone: that covers all that wrote together.
    pub(crate) fn filled_disk(self, key: &PartitionKey, has_room: bool, usual: usize) -> bool {
        let mut trials = self.trials.lock();
        trials.alone = usual;
        if !(has_room && self.began_alone && trials.started == self.number) {
            return false;
        }
        if trials.tries.len() >= MAX_KEYS {
            // Partitions that another process extracted meanwhile.
            trials.tries.clear();
        }
        let tries = trials.tries.entry(key.clone()).or_default();
        *tries += 1;
        let does_not_fit = *tries >= MAX_TRIES_ALONE;
        if does_not_fit {
            trials.tries.remove(key);
        }
        does_not_fit
    }

    /// The attempt ended, and not because of a full disk.
    pub(crate) fn ended(self, key: &PartitionKey) {
        let mut trials = self.trials.lock();
        trials.alone = trials.alone.saturating_sub(1);
        trials.tries.remove(key);
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.trials.lock().writing -= 1;
    }
}
