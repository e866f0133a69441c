//! Passes units from one loop to another of the same process without releasing them.
//!
//! Releasing a unit and claiming it again costs one more statement and reads back what was just written. So the finish of
//! an attempt may keep its unit for the loop of the next stage, under the next epoch, and pass it in memory. The receiving
//! loop announces how many units it can start soon, and a slot is reserved before the finish is written: a process keeps no
//! more than it can use, and the rest is open to all workers.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use redrive_store::LeaseRef;
use tokio::{sync::Notify, time::Instant};

/// A channel of units with reserved slots.
pub struct Handoff<U> {
    state: Mutex<HandoffState<U>>,
    arrived: Notify,
}

struct HandoffState<U> {
    /// How many units the receiving loop accepts, including those on their way.
    capacity: usize,
    /// The leases of units that are on their way, or arrived and were not taken.
    incoming: HashSet<LeaseRef>,
    /// Units that arrived, with the time at which their lease was requested.
    units: Vec<(U, Instant)>,
}

impl<U> Default for Handoff<U> {
    /// Without capacity, until the receiving loop announces some.
    fn default() -> Self {
        let state = HandoffState { capacity: 0, incoming: HashSet::new(), units: Vec::new() };
        Self { state: Mutex::new(state), arrived: Notify::new() }
    }
}

impl<U> Handoff<U> {
    /// Reserves a slot, if one is free, for a unit that will be held under a lease. The caller then sends it or cancels.
    pub fn reserve(&self, lease: LeaseRef) -> bool {
        let mut state = self.state();
        let free = state.incoming.len() < state.capacity;
        if free {
            state.incoming.insert(lease);
        }
        free
    }

    /// Frees a reserved slot whose unit will not arrive.
    pub fn cancel(&self, lease: LeaseRef) {
        self.state().incoming.remove(&lease);
        // The receiving loop may be waiting for the last one.
        self.arrived.notify_one();
    }

    /// Sends a unit into its reserved slot, with the time at which its lease was requested.
    pub fn send(&self, unit: U, requested: Instant) {
        self.state().units.push((unit, requested));
        self.arrived.notify_one();
    }

    /// Announces how many units the receiving loop accepts, including those on their way.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.state().capacity = capacity;
    }

    /// How many units are on their way, or arrived and were not taken.
    pub(crate) fn incoming(&self) -> usize {
        self.state().incoming.len()
    }

    /// Whether the unit of a lease is on its way, or arrived and was not taken.
    pub(crate) fn expects(&self, lease: LeaseRef) -> bool {
        self.state().incoming.contains(&lease)
    }

    /// Takes the units that arrived, and lets the receiving loop hold their leases meanwhile: at every moment the lease is
    /// expected here or held there. The slots are not free: until the next [`set_capacity`](Self::set_capacity) nobody
    /// reserves them again.
    pub(crate) fn take(&self, hold: impl Fn(&U, Instant) -> LeaseRef) -> Vec<(U, Instant)> {
        let mut state = self.state();
        let units = std::mem::take(&mut state.units);
        state.capacity = state.capacity.saturating_sub(units.len());
        for (unit, requested) in &units {
            state.incoming.remove(&hold(unit, *requested));
        }
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
    use redrive_core::Epoch;
    use redrive_retry::monotonic;
    use redrive_store::LeaseRef;

    use super::Handoff;

    // PIP-1
    #[test]
    fn the_slot_of_a_taken_unit_is_not_reserved_again_before_the_loop_says_so() {
        let [a, b, c] = [1, 2, 3].map(|id| LeaseRef { id, epoch: Epoch(1) });
        let handoff = Handoff::default();
        handoff.set_capacity(2);
        assert!(handoff.reserve(a) && handoff.reserve(b) && !handoff.reserve(c));
        handoff.send("a", monotonic());
        assert!(handoff.expects(a));
        assert_eq!(handoff.take(|_, _| a).len(), 1);
        assert!(!handoff.expects(a));
        assert!(!handoff.reserve(c), "one is on its way, and one was taken");
        handoff.cancel(b);
        assert!(handoff.reserve(c));
    }
}
