//! Telling who waits that there may be something to claim.

use tokio::sync::watch;

/// Where a store says that it has something new. Those who listen have a receiver of
/// [`Store::wakes`](crate::Store::wakes).
#[derive(Debug, Clone)]
pub struct Wakes(watch::Sender<u64>);

impl Wakes {
    /// With nobody listening yet.
    pub fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Wakes everyone who listens. Called after the commit, so that whoever looks finds it.
    pub fn wake(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Wakes them if there is a reason.
    pub fn wake_if(&self, reason: bool) {
        if reason {
            self.wake();
        }
    }

    /// Listens from now on.
    pub fn listen(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

impl Default for Wakes {
    fn default() -> Self {
        Self::new()
    }
}
