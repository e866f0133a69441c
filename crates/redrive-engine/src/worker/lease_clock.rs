//! The clock of leases beside the time that passes here.
//!
//! Whoever holds a lease goes by the time that passed since it was asked for: nobody can set that. Whoever judges
//! others must go by the store's clock, which all of them share, and somebody may set it: a server's clock goes
//! forward by an hour, or a machine slept. Then every lease has ended by it, and nobody was lost.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use redrive_retry::monotonic;

/// Both, read at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// The clock of leases.
    pub(crate) shared: Timestamp,
    /// The runtime's clock, which nobody sets.
    pub(crate) here: Instant,
}

impl Reading {
    /// Goes with what the clock of leases says at this moment.
    pub(crate) fn now(shared: Timestamp) -> Self {
        Self { shared, here: monotonic() }
    }

    /// Whether the clock of leases went further since an earlier reading than time did, by more than a little.
    pub(crate) fn has_jumped_since(&self, earlier: &Self, little: Duration) -> bool {
        let passed = self.here.duration_since(earlier.here).saturating_add(little);
        let shared = Duration::try_from(self.shared.duration_since(earlier.shared));
        shared.is_ok_and(|shared| shared > passed)
    }
}
