//! The lease clock beside the monotonic clock of this process.
//!
//! A holder of a lease measures the time since it asked for the lease; nobody can set that clock. A reaper must use the
//! store's clock, which all workers share and which can jump: an administrator sets it, or a machine slept. After a jump
//! every lease has ended by that clock although no worker was lost.

use std::time::Duration;

use jiff::Timestamp;
use redrive_retry::monotonic;
use tokio::time::Instant;

/// Both clocks, read at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockReading {
    /// The lease clock.
    pub(crate) shared: Timestamp,
    /// The monotonic clock of this process.
    pub(crate) local: Instant,
}

impl ClockReading {
    pub(crate) fn now(shared: Timestamp) -> Self {
        Self { shared, local: monotonic() }
    }

    /// Whether the lease clock advanced since an earlier reading by more than the monotonic clock plus a tolerance.
    pub(crate) fn has_jumped_since(&self, earlier: &Self, tolerance: Duration) -> bool {
        let passed = self.local.duration_since(earlier.local).saturating_add(tolerance);
        let shared = Duration::try_from(self.shared.duration_since(earlier.shared));
        shared.is_ok_and(|shared| shared > passed)
    }
}

/// A time on the lease clock.
pub(crate) fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// How long before its end a lease is no longer relied on.
pub(crate) fn lease_margin(lease: Duration) -> Duration {
    lease / 6
}

/// How long after the request a lease is relied on.
pub(crate) fn usable_lease(lease: Duration) -> Duration {
    lease.saturating_sub(lease_margin(lease))
}
