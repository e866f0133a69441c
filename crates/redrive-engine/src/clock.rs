//! The wall clock, for what people read and for retry times. Leases have a clock of their own:
//! [`Store::now`](redrive_store::Store::now).

use jiff::Timestamp;
use tokio::time::Instant;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    /// To the microsecond, which is what stores keep: a time read back equals the time written.
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }
}

/// A clock that does not jump: the machine's time when it was made, carried on by tokio's clock. Where
/// tokio's time is paused, it stands still and moves with it.
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

/// The runtime's clock, for time limits within this process. It does not jump, and tests can pause it.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}
