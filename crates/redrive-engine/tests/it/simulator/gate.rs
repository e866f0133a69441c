//! A worker that freezes, and one that dies.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Shut,
    Dead,
}

/// What a worker's every step to the outside passes through. Those who wait go on in the order in
/// which they came.
pub(crate) struct Gate {
    state: Mutex<State>,
    opened: Notify,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State::Open), opened: Notify::new() }
    }

    /// Goes on at once, when the worker does, or never.
    pub(crate) async fn pass(&self) {
        while self.state() != State::Open {
            self.opened.notified().await;
        }
    }

    pub(crate) fn freeze(&self) {
        self.set(State::Shut);
    }

    pub(crate) fn thaw(&self) {
        self.set(State::Open);
        self.opened.notify_waiters();
    }

    pub(crate) fn kill(&self) {
        self.set(State::Dead);
    }

    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The dead stay dead.
    fn set(&self, new: State) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state != State::Dead {
            *state = new;
        }
    }
}
