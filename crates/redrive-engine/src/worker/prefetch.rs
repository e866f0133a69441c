//! How many units to claim at a time.
//!
//! With too few, short attempts wait for claims; with too many, a worker holds units that others could have started. So a
//! worker claims what fills its slots, plus what it will start within a moment at its recent speed.

use jiff::{SignedDuration, Timestamp};

/// How far ahead to claim.
const HORIZON: SignedDuration = SignedDuration::from_millis(50);

/// How long to measure the speed before using it.
const WINDOW: SignedDuration = SignedDuration::from_millis(10);

/// The most units that are claimed ahead.
const MAX_AHEAD: usize = 4_000;

/// How many times further ahead than claims other loops may hand units off.
const HANDOFF_REACH: usize = 3;

/// The units that a worker has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlight {
    /// Units that run or wait for a slot.
    pub(crate) unfinished: usize,
    /// All held units, including those that only wait to be written.
    pub(crate) held: usize,
}

impl InFlight {
    /// Units that wait to be written do not keep the worker from starting others, up to a limit: after a crash all of
    /// them run again.
    fn capacity(self, target: usize) -> usize {
        target.saturating_sub(self.unfinished).min((2 * target).saturating_sub(self.held))
    }
}

/// Measures how fast attempts end, and derives how many units to claim ahead.
#[derive(Debug)]
pub(crate) struct Prefetch {
    concurrency: usize,
    ahead: usize,
    since: Option<Timestamp>,
    ended: i32,
}

impl Prefetch {
    pub(crate) fn new(concurrency: usize) -> Self {
        Self { concurrency, ahead: 0, since: None, ended: 0 }
    }

    /// How many units to claim. Zero while less than a quarter of the target is free: a claim costs the same for one
    /// unit as for many.
    pub(crate) fn claim_size(&self, in_flight: InFlight, claims_ahead: bool) -> usize {
        let target = self.concurrency + if claims_ahead { self.ahead } else { 0 };
        let capacity = in_flight.capacity(target);
        if capacity >= (target / 4).max(1) { capacity } else { 0 }
    }

    /// How many units other loops may hand off to this one. They arrive only after their results are written, and until
    /// then no other worker can have them.
    pub(crate) fn handoff_capacity(&self, in_flight: InFlight) -> usize {
        in_flight.capacity(self.concurrency + self.ahead * HANDOFF_REACH)
    }

    /// Counts an attempt that ended.
    pub(crate) fn ended(&mut self, now: Timestamp) {
        let since = *self.since.get_or_insert(now);
        self.ended = self.ended.saturating_add(1);
        let elapsed = now.duration_since(since);
        if elapsed < WINDOW && elapsed >= SignedDuration::ZERO {
            return;
        }
        // A clock that was set back starts a new window and gives no speed.
        if elapsed >= WINDOW {
            let within = f64::from(self.ended) * HORIZON.as_secs_f64() / elapsed.as_secs_f64();
            self.ahead = (within as usize).min(MAX_AHEAD);
        }
        (self.since, self.ended) = (Some(now), 0);
    }
}
