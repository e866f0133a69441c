//! The clocks of a world: a wall clock that jumps, and a clock of leases that does not. Both stand on
//! tokio's virtual time.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use redrive_engine::Clock;
use tokio::time::Instant;

/// Both clocks.
pub(crate) struct SimClock {
    start: Instant,
    /// How far the wall clock is off, since when; the first entry is at the start.
    offsets: Mutex<Vec<(Duration, SignedDuration)>>,
}

impl SimClock {
    pub(crate) fn new() -> Self {
        let offsets = vec![(Duration::ZERO, SignedDuration::ZERO)];
        Self { start: Instant::now(), offsets: Mutex::new(offsets) }
    }

    /// The time since the world began, which nobody in it can see.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// What the clock of leases showed at a moment.
    pub(crate) fn lease_at(&self, elapsed: Duration) -> Timestamp {
        at(elapsed, SignedDuration::ZERO)
    }

    pub(crate) fn lease_now(&self) -> Timestamp {
        self.lease_at(self.elapsed())
    }

    /// Someone sets the wall clock.
    pub(crate) fn jump(&self, by: SignedDuration) {
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, offset) = offsets[offsets.len() - 1];
        offsets.push((self.elapsed(), offset + by));
    }

    /// Whether the wall clock showed a time at a moment; it may have been set at that moment.
    pub(crate) fn showed(&self, time: Timestamp, elapsed: Duration) -> bool {
        let offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = offsets.iter().skip(1).map(|(since, _)| *since).chain([Duration::MAX]);
        offsets.iter().zip(ends).any(|((since, offset), end)| {
            (*since..=end).contains(&elapsed) && at(elapsed, *offset) == time
        })
    }

    /// The latest time the wall clock showed between two moments.
    pub(crate) fn latest_between(&self, from: Duration, to: Duration) -> Timestamp {
        let offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = offsets.iter().skip(1).map(|(since, _)| *since).chain([Duration::MAX]);
        let within =
            offsets.iter().zip(ends).filter(|((since, _), end)| *since <= to && *end >= from);
        within.map(|((_, offset), end)| at(end.min(to), *offset)).max().unwrap_or(Timestamp::MIN)
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let elapsed = self.elapsed();
        let offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        at(elapsed, offsets[offsets.len() - 1].1)
    }
}

fn at(elapsed: Duration, offset: SignedDuration) -> Timestamp {
    let start: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::try_from(elapsed).unwrap() + offset
}
