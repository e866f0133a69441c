//! Units that one loop hands to another of the same process without letting go of them.
//!
//! Letting go of a unit and claiming it again is a statement more, and reads back what was just
//! written. So the end of an attempt may keep its unit for the loop that has what comes next, under
//! the next epoch, and hand it over in memory. That loop says how many it would begin soon, and a place
//! is promised before the end is written: a process keeps no more than it can use, and the rest is for
//! everyone.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::{sync::Notify, time::Instant};

/// The way from one loop to another.
pub struct Handoff<U> {
    state: Mutex<State<U>>,
    arrived: Notify,
}

struct State<U> {
    /// How many units the loop would take, those included that are on their way.
    room: usize,
    /// How many were promised a place and have not come.
    promised: usize,
    /// What has come, and when its lease was asked for.
    units: Vec<(U, Instant)>,
}

impl<U> State<U> {
    fn coming(&self) -> usize {
        self.promised + self.units.len()
    }
}

impl<U> Default for Handoff<U> {
    /// Without room, until the loop says that there is some.
    fn default() -> Self {
        let state = State { room: 0, promised: 0, units: Vec::new() };
        Self { state: Mutex::new(state), arrived: Notify::new() }
    }
}

impl<U> Handoff<U> {
    /// Promises a place, if there is one. Whoever has it hands a unit over, or withdraws.
    pub fn promise(&self) -> bool {
        let mut state = self.state();
        let free = state.coming() < state.room;
        state.promised += usize::from(free);
        free
    }

    /// Gives a promised place back: its unit does not come.
    pub fn withdraw(&self) {
        let mut state = self.state();
        state.promised = state.promised.saturating_sub(1);
        // The loop may wait for the last one.
        self.arrived.notify_one();
    }

    /// Hands over a unit that has a place, and whose lease was asked for at a time.
    pub fn hand_over(&self, unit: U, asked_at: Instant) {
        let mut state = self.state();
        state.promised = state.promised.saturating_sub(1);
        state.units.push((unit, asked_at));
        self.arrived.notify_one();
    }

    /// Says how many units would be taken, those included that are on their way.
    pub(crate) fn offer(&self, room: usize) {
        self.state().room = room;
    }

    /// How many are on their way, or have come and were not taken.
    pub(crate) fn coming(&self) -> usize {
        self.state().coming()
    }

    /// Takes what has come.
    pub(crate) fn take(&self) -> Vec<(U, Instant)> {
        std::mem::take(&mut self.state().units)
    }

    /// A panic while the lock was held leaves the state whole: every change is one step.
    fn state(&self) -> MutexGuard<'_, State<U>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until something has come, or will not come any more; for ever if nobody hands anything over.
pub(crate) async fn arrived<U>(handoff: Option<&Handoff<U>>) {
    match handoff {
        Some(handoff) => handoff.arrived.notified().await,
        None => std::future::pending().await,
    }
}
