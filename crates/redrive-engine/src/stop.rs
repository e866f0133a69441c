//! Telling work to stop.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// Tells everyone who listens to stop. Dropping it tells them too: work never outlives who asked
/// for it.
#[derive(Debug)]
pub struct Stopper(Arc<Signal>);

/// Hears when to stop. Clones hear the same.
#[derive(Debug, Clone)]
pub struct Stop(Arc<Signal>);

/// Wakes those who wait in the order in which they came, so that a simulation replays exactly.
#[derive(Debug, Default)]
struct Signal {
    told: AtomicBool,
    listeners: Notify,
}

impl Stopper {
    /// A stopper, and what hears it.
    pub fn new() -> (Self, Stop) {
        let signal = Arc::new(Signal::default());
        (Self(signal.clone()), Stop(signal))
    }

    /// Tells to stop. Saying it twice is saying it once.
    pub fn stop(&self) {
        self.0.told.store(true, Ordering::Release);
        self.0.listeners.notify_waiters();
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        // Mostly the work is over by then, and nobody listens any more.
        if Arc::strong_count(&self.0) > 1 {
            self.stop();
        }
    }
}

impl Stop {
    /// Whether it was told already.
    pub fn is_told(&self) -> bool {
        self.0.told.load(Ordering::Acquire)
    }

    /// Waits until it is told.
    pub async fn told(&mut self) {
        // Listening comes before looking: what is told in between is heard.
        let heard = self.0.listeners.notified();
        if !self.is_told() {
            heard.await;
        }
    }
}
