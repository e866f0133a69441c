//! The leases that a worker loop holds, with the state of each attempt.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::Epoch;
use redrive_retry::{Stop, Stopper, monotonic};
use redrive_store::LeaseRef;
use tokio::{sync::Notify, time::Instant};

struct HeldLease {
    /// When the lease was requested, on the monotonic clock: it is valid for its whole length from then on, or longer.
    requested: Instant,
    stopper: Option<Stopper>,
    /// The attempt is over, and its result is on the way to the store.
    ended: bool,
    health: LeaseHealth,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseHealth {
    Held,
    /// The lease is about to end because the store did not answer. No other worker has the unit as far as is known: it is
    /// kept until its attempt has stopped, and then released.
    Expiring,
    /// Another worker has the unit.
    Lost,
}

/// All leases of one loop, shared by the tasks that handle, renew and finish.
///
/// Keyed by id and epoch: a unit may return to the same worker while the result of its earlier attempt is still being
/// written. Ordered, so that a simulation replays exactly.
#[derive(Default)]
pub(crate) struct HeldLeases {
    state: Mutex<State>,
    changed: Notify,
    doubted: Notify,
}

type LeaseKey = (i64, Epoch);

#[derive(Default)]
struct State {
    leases: BTreeMap<LeaseKey, HeldLease>,
    /// Attempts that ended with a result which the store refused, and when.
    refused: BTreeMap<LeaseKey, Instant>,
    /// The lease end that the pending claim requested.
    pending_claim: Option<Timestamp>,
    /// When a claim failed last. The store may have made it, then or later, without a chance to say so.
    failed_claim: Option<Instant>,
}

impl HeldLeases {
    pub(crate) fn add(&self, leases: impl IntoIterator<Item = LeaseRef>, requested: Instant) {
        let mut state = self.lock();
        for lease in leases {
            let health = LeaseHealth::Held;
            state
                .leases
                .insert(key(lease), HeldLease { requested, stopper: None, ended: false, health });
        }
    }

    /// A claim is on its way; whatever it claims is leased until a time.
    pub(crate) fn claim_sent(&self, until: Timestamp) {
        self.lock().pending_claim = Some(until);
    }

    /// The claim was answered, and its units were added.
    pub(crate) fn claim_answered(&self) {
        self.lock().pending_claim = None;
    }

    /// The claim was not answered: whether it was made is not known.
    pub(crate) fn claim_failed(&self) {
        let mut state = self.lock();
        (state.pending_claim, state.failed_claim) = (None, Some(monotonic()));
        self.doubted.notify_one();
    }

    /// The lease end that the pending claim requested.
    pub(crate) fn pending_claim(&self) -> Option<Timestamp> {
        self.lock().pending_claim
    }

    /// Whether a claim failed of which nothing was found out since.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.lock().failed_claim.is_some()
    }

    /// Waits until a claim fails.
    pub(crate) async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// Everything that was claimed by a time is known. A claim may be made for as long as a lease after it failed.
    pub(crate) fn doubt_resolved(&self, at: Instant, lease: Duration) {
        let is_over = |failed: &mut Instant| at.saturating_duration_since(*failed) >= lease;
        self.lock().failed_claim.take_if(is_over);
    }

    /// Starts an attempt, and returns the signal that stops it.
    pub(crate) fn start(&self, lease: LeaseRef) -> Stop {
        let (stopper, stop) = Stopper::new();
        if let Some(held) = self.lock().leases.get_mut(&key(lease)) {
            if held.health != LeaseHealth::Held {
                stopper.stop();
            }
            held.stopper = Some(stopper);
        }
        stop
    }

    /// Marks an attempt as over. The lease is held until the result is written.
    pub(crate) fn ended(&self, lease: LeaseRef) {
        if let Some(held) = self.lock().leases.get_mut(&key(lease)) {
            held.ended = true;
        }
    }

    /// Whether the attempt under a lease has not ended yet.
    pub(crate) fn is_running(&self, lease: LeaseRef) -> bool {
        let state = self.lock();
        let held = state.leases.get(&key(lease));
        held.is_some_and(|held| held.health != LeaseHealth::Lost && !held.ended)
    }

    /// Stops all attempts.
    pub(crate) fn stop_all(&self) {
        for held in self.lock().leases.values() {
            held.stop();
        }
    }

    pub(crate) fn renewed(&self, leases: &[LeaseRef], requested: Instant) {
        let mut state = self.lock();
        for lease in leases {
            if let Some(held) = state.leases.get_mut(&key(*lease)) {
                held.requested = requested;
            }
        }
    }

    /// Marks a lease as unreliable, and stops its attempt.
    pub(crate) fn degrade(&self, lease: LeaseRef, health: LeaseHealth) {
        if let Some(held) = self.lock().leases.get_mut(&key(lease)) {
            held.health = health;
            held.stop();
        }
    }

    pub(crate) fn health(&self, lease: LeaseRef) -> LeaseHealth {
        self.lock().leases.get(&key(lease)).map_or(LeaseHealth::Lost, |held| held.health)
    }

    /// Whether this loop has the lease, in whatever health.
    pub(crate) fn contains(&self, lease: LeaseRef) -> bool {
        self.lock().leases.contains_key(&key(lease))
    }

    /// Forgets a lease whose result the store refused. It was used: its unit is not released when it ends.
    pub(crate) fn refuse(&self, lease: LeaseRef) {
        self.lock().refused.insert(key(lease), monotonic());
        self.remove([lease]);
    }

    pub(crate) fn was_refused(&self, lease: LeaseRef) -> bool {
        self.lock().refused.contains_key(&key(lease))
    }

    /// Forgets refused leases that have ended, unless the store still has them.
    pub(crate) fn forget_refused(&self, stored: &HashSet<LeaseRef>, lease: Duration) {
        self.lock().refused.retain(|(id, epoch), at| {
            at.elapsed() < lease * 2 || stored.contains(&LeaseRef { id: *id, epoch: *epoch })
        });
    }

    pub(crate) fn remove(&self, leases: impl IntoIterator<Item = LeaseRef>) {
        let mut state = self.lock();
        for lease in leases {
            state.leases.remove(&key(lease));
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Wakes the loop: there may be capacity, or work, that was not there before.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Waits until leases were removed or the loop was woken.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The leases to renew.
    pub(crate) fn leases(&self) -> Vec<LeaseRef> {
        self.leases_where(|held| held.health != LeaseHealth::Lost)
    }

    /// The leases of running attempts that were requested at least `age` ago.
    pub(crate) fn older_than(&self, age: Duration) -> Vec<LeaseRef> {
        self.leases_where(|held| {
            held.health == LeaseHealth::Held && !held.ended && held.requested.elapsed() >= age
        })
    }

    fn leases_where(&self, matches: impl Fn(&HeldLease) -> bool) -> Vec<LeaseRef> {
        let state = self.lock();
        let matching = state.leases.iter().filter(|(_, held)| matches(held));
        matching.map(|((id, epoch), _)| LeaseRef { id: *id, epoch: *epoch }).collect()
    }

    /// How many units are being handled or written, and how many wait for a slot.
    pub(crate) fn occupancy(&self) -> (u32, u32) {
        let state = self.lock();
        let started = |held: &&HeldLease| held.stopper.is_some() || held.ended;
        let started = state.leases.values().filter(started).count();
        let claimed = state.leases.len() - started;
        (started.try_into().unwrap_or(u32::MAX), claimed.try_into().unwrap_or(u32::MAX))
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().leases.len()
    }

    /// A panic while the lock was held leaves its content consistent: every change is one insert, one removal or one
    /// field.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(lease: LeaseRef) -> LeaseKey {
    (lease.id, lease.epoch)
}

impl HeldLease {
    fn stop(&self) {
        if let Some(stopper) = &self.stopper {
            stopper.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refused_lease_is_forgotten_once_it_has_ended_and_the_store_has_it_no_more() {
        let (held, length) = (HeldLeases::default(), Duration::from_secs(60));
        let lease = LeaseRef { id: 1, epoch: Epoch(1) };
        let (none, stored) = (HashSet::new(), HashSet::from([lease]));
        held.refuse(lease);
        held.forget_refused(&none, length);
        assert!(held.was_refused(lease), "it may not have ended yet");
        tokio::time::advance(length * 2).await;
        held.forget_refused(&stored, length);
        assert!(held.was_refused(lease), "its attempt is still to be counted");
        held.forget_refused(&none, length);
        assert!(!held.was_refused(lease));
    }
}
