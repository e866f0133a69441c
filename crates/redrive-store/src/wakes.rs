//! Wakes idle workers when there may be something to claim.

use tokio::sync::watch;

/// The sending side of [`Store::wakes`](crate::Store::wakes).
#[derive(Debug, Clone)]
pub struct Wakes(watch::Sender<u64>);

impl Wakes {
    pub fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Wakes all listeners. Call after the commit, so that a claim finds the change.
    pub fn wake(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub fn wake_if(&self, reason: bool) {
        if reason {
            self.wake();
        }
    }

    pub fn listen(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

impl Default for Wakes {
    fn default() -> Self {
        Self::new()
    }
}
