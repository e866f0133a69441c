//! The wall clock, for times that people read and for retry times. Leases use the clock of the store instead.

use jiff::Timestamp;
use tokio::time::Instant;

pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    /// Truncated to microseconds, the precision of the stores: a stored time reads back unchanged.
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }
}

/// A clock that never jumps: the system time at its creation plus the time that tokio's clock measured since. It follows
/// tokio's paused time in tests.
#[derive(Debug, Clone, Copy)]
pub struct SteadyClock {
    start: Timestamp,
    since: Instant,
}

impl Default for SteadyClock {
    fn default() -> Self {
        Self { start: SystemClock.now(), since: Instant::now() }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        self.start.checked_add(self.since.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

/// Tokio's monotonic clock, for time limits within this process. Tests can pause it.
pub fn monotonic() -> Instant {
    Instant::now()
}
