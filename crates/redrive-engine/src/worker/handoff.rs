//! Passes units from one loop to another of the same process without releasing them.
//!
//! Releasing a unit and claiming it again costs one more statement and reads back what was just written. So the finish of
//! an attempt may keep its unit for the loop of the next stage, under the next epoch, and pass it in memory. The receiving
//! loop announces how many units it can start soon, and a slot is reserved before the finish is written: a process keeps no
//! more than it can use, and the rest is open to all workers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::{sync::Notify, time::Instant};

/// A channel of units with reserved slots.
pub struct Handoff<U> {
    state: Mutex<HandoffState<U>>,
    arrived: Notify,
}

struct HandoffState<U> {
    /// How many units the receiving loop accepts, including those on their way.
    capacity: usize,
    /// Slots that are reserved and whose units have not arrived.
    reserved: usize,
    /// Units that arrived, with the time at which their lease was requested.
    units: Vec<(U, Instant)>,
}

impl<U> HandoffState<U> {
    fn incoming(&self) -> usize {
        self.reserved + self.units.len()
    }
}

impl<U> Default for Handoff<U> {
    /// Without capacity, until the receiving loop announces some.
    fn default() -> Self {
        let state = HandoffState { capacity: 0, reserved: 0, units: Vec::new() };
        Self { state: Mutex::new(state), arrived: Notify::new() }
    }
}

impl<U> Handoff<U> {
    /// Reserves a slot if one is free. The caller then sends a unit or cancels.
    pub fn reserve(&self) -> bool {
        let mut state = self.state();
        let free = state.incoming() < state.capacity;
        state.reserved += usize::from(free);
        free
    }

    /// Frees a reserved slot whose unit will not arrive.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.reserved = state.reserved.saturating_sub(1);
        // The receiving loop may be waiting for the last one.
        self.arrived.notify_one();
    }

    /// Sends a unit into a reserved slot, with the time at which its lease was requested.
    pub fn send(&self, unit: U, requested: Instant) {
        let mut state = self.state();
        state.reserved = state.reserved.saturating_sub(1);
        state.units.push((unit, requested));
        self.arrived.notify_one();
    }

    /// Announces how many units the receiving loop accepts, including those on their way.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.state().capacity = capacity;
    }

    /// How many units are on their way, or arrived and were not taken.
    pub(crate) fn incoming(&self) -> usize {
        self.state().incoming()
    }

    /// Takes the units that arrived. Their slots are not free: until the next [`set_capacity`](Self::set_capacity) nobody
    /// reserves them again.
    pub(crate) fn take(&self) -> Vec<(U, Instant)> {
        let mut state = self.state();
        let units = std::mem::take(&mut state.units);
        state.capacity = state.capacity.saturating_sub(units.len());
        units
    }

    /// A panic while the lock was held leaves the state consistent: every change is one step.
    fn state(&self) -> MutexGuard<'_, HandoffState<U>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a unit arrived or a slot was freed; forever without a handoff.
pub(crate) async fn arrived<U>(handoff: Option<&Handoff<U>>) {
    match handoff {
        Some(handoff) => handoff.arrived.notified().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use redrive_retry::monotonic;

    use super::Handoff;

    // PIP-1
    #[test]
    fn the_slot_of_a_taken_unit_is_not_reserved_again_before_the_loop_says_so() {
        let handoff = Handoff::default();
        handoff.set_capacity(2);
        assert!(handoff.reserve() && handoff.reserve() && !handoff.reserve());
        handoff.send("a", monotonic());
        assert_eq!(handoff.take().len(), 1);
        assert!(!handoff.reserve(), "one is on its way, and one was taken");
        handoff.cancel();
        assert!(handoff.reserve());
    }
}
