//! A stop signal: a [`Stopper`] sends it, any number of [`Stop`]s receive it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// Sends the stop signal, also when dropped: work never outlives its owner.
#[derive(Debug)]
pub struct Stopper(Arc<Signal>);

/// Receives the stop signal. Clones receive the same signal.
#[derive(Debug, Clone)]
pub struct Stop(Arc<Signal>);

/// Wakes waiters in the order in which they arrived, so that a simulation replays exactly.
#[derive(Debug, Default)]
struct Signal {
    stopped: AtomicBool,
    listeners: Notify,
}

impl Stopper {
    /// A connected pair.
    pub fn new() -> (Self, Stop) {
        let signal = Arc::new(Signal::default());
        (Self(signal.clone()), Stop(signal))
    }

    /// Sends the signal. Further calls have no effect.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        self.0.listeners.notify_waiters();
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        // Usually the work is over and no receiver is left.
        if Arc::strong_count(&self.0) > 1 {
            self.stop();
        }
    }
}

impl Stop {
    /// Whether the signal was sent.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// Waits for the signal.
    pub async fn stopped(&mut self) {
        // Registers before checking, so that a signal in between is not missed.
        let signal = self.0.listeners.notified();
        if !self.is_stopped() {
            signal.await;
        }
    }
}
