//! Notifications of the store, passed on in a fixed order. A channel with many receivers wakes them
//! in any order, which no seed decides.

use std::sync::{Arc, Mutex, PoisonError};

use redrive_store::Store;
use tokio::sync::watch;

/// A bell for everyone who listens.
#[derive(Default)]
pub(crate) struct Bells(Mutex<Vec<(watch::Sender<u64>, bool)>>);

impl Bells {
    /// One more bell; a silent one never rings.
    pub(crate) fn hang(&self, silent: bool) -> watch::Receiver<u64> {
        let (bell, receiver) = watch::channel(0);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((bell, silent));
        receiver
    }

    /// Rings whenever the store says that it has something new.
    pub(crate) async fn ring(self: Arc<Self>, store: Arc<dyn Store>) {
        let mut wakes = store.wakes();
        while wakes.changed().await.is_ok() {
            let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            bells.retain(|(bell, _)| !bell.is_closed());
            for (bell, _) in bells.iter().filter(|(_, silent)| !silent) {
                bell.send_modify(|count| *count += 1);
            }
        }
    }
}
