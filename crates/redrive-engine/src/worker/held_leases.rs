//! The leases that a worker loop holds, with the state of each attempt.

use std::{
    collections::{BTreeMap, BTreeSet},
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
    leases: Mutex<BTreeMap<(i64, Epoch), HeldLease>>,
    /// The leases of attempts that ended with a result which the store refused.
    refused: Mutex<BTreeSet<(i64, Epoch)>>,
    claims: Mutex<Claims>,
    changed: Notify,
    doubted: Notify,
}

/// What is not known yet about the claims of a loop.
#[derive(Default)]
struct Claims {
    /// The lease end that the pending claim requested.
    pending: Option<Timestamp>,
    /// When a claim failed last. The store may have made it, then or later, without a chance to say so.
    failed: Option<Instant>,
}

impl HeldLeases {
    pub(crate) fn add(&self, leases: impl IntoIterator<Item = LeaseRef>, requested: Instant) {
        let mut held = self.lock();
        for lease in leases {
            let health = LeaseHealth::Held;
            held.insert(key(lease), HeldLease { requested, stopper: None, ended: false, health });
        }
    }

    /// A claim is on its way; whatever it claims is leased until a time.
    pub(crate) fn claim_sent(&self, until: Timestamp) {
        lock(&self.claims).pending = Some(until);
    }

    /// The claim was answered, and its units were added.
    pub(crate) fn claim_answered(&self) {
        lock(&self.claims).pending = None;
    }

    /// The claim was not answered: whether it was made is not known.
    pub(crate) fn claim_failed(&self) {
        *lock(&self.claims) = Claims { pending: None, failed: Some(monotonic()) };
        self.doubted.notify_one();
    }

    /// The lease end that the pending claim requested.
    pub(crate) fn pending_claim(&self) -> Option<Timestamp> {
        lock(&self.claims).pending
    }

    /// Whether a claim failed of which nothing was found out since.
    pub(crate) fn is_in_doubt(&self) -> bool {
        lock(&self.claims).failed.is_some()
    }

    /// Waits until a claim fails.
    pub(crate) async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// Everything that was claimed by a time is known. A claim may be made for as long as a lease after it failed.
    pub(crate) fn doubt_resolved(&self, at: Instant, lease: Duration) {
        let mut claims = lock(&self.claims);
        if claims.failed.is_some_and(|failed| at.saturating_duration_since(failed) >= lease) {
            claims.failed = None;
        }
    }

    /// Starts an attempt, and returns the signal that stops it.
    pub(crate) fn start(&self, lease: LeaseRef) -> Stop {
        let (stopper, stop) = Stopper::new();
        if let Some(held) = self.lock().get_mut(&key(lease)) {
            if held.health != LeaseHealth::Held {
                stopper.stop();
            }
            held.stopper = Some(stopper);
        }
        stop
    }

    /// Marks an attempt as over. The lease is held until the result is written.
    pub(crate) fn ended(&self, lease: LeaseRef) {
        if let Some(held) = self.lock().get_mut(&key(lease)) {
            held.ended = true;
        }
    }

    /// Whether the attempt under a lease has not ended yet.
    pub(crate) fn is_running(&self, lease: LeaseRef) -> bool {
        let held = self.lock();
        held.get(&key(lease)).is_some_and(|held| held.health != LeaseHealth::Lost && !held.ended)
    }

    /// Stops all attempts.
    pub(crate) fn stop_all(&self) {
        for held in self.lock().values() {
            held.stop();
        }
    }

    pub(crate) fn renewed(&self, leases: &[LeaseRef], requested: Instant) {
        let mut held = self.lock();
        for lease in leases {
            if let Some(held) = held.get_mut(&key(*lease)) {
                held.requested = requested;
            }
        }
    }

    /// Marks a lease as unreliable, and stops its attempt.
    pub(crate) fn degrade(&self, lease: LeaseRef, health: LeaseHealth) {
        if let Some(held) = self.lock().get_mut(&key(lease)) {
            held.health = health;
            held.stop();
        }
    }

    pub(crate) fn health(&self, lease: LeaseRef) -> LeaseHealth {
        self.lock().get(&key(lease)).map_or(LeaseHealth::Lost, |held| held.health)
    }

    /// Whether this loop has the lease, in whatever health.
    pub(crate) fn contains(&self, lease: LeaseRef) -> bool {
        self.lock().contains_key(&key(lease))
    }

    /// Forgets a lease whose result the store refused. It was used: its unit is not released when it ends.
    pub(crate) fn refuse(&self, lease: LeaseRef) {
        lock(&self.refused).insert(key(lease));
        self.remove([lease]);
    }

    pub(crate) fn was_refused(&self, lease: LeaseRef) -> bool {
        lock(&self.refused).contains(&key(lease))
    }

    pub(crate) fn remove(&self, leases: impl IntoIterator<Item = LeaseRef>) {
        let mut held = self.lock();
        for lease in leases {
            held.remove(&key(lease));
        }
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
        let held = self.lock();
        let matching = held.iter().filter(|(_, held)| matches(held));
        matching.map(|((id, epoch), _)| LeaseRef { id: *id, epoch: *epoch }).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(i64, Epoch), HeldLease>> {
        lock(&self.leases)
    }
}

/// A panic while a lock was held leaves its content consistent: every change is one insert, one removal or one field.
fn lock<T>(content: &Mutex<T>) -> MutexGuard<'_, T> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(lease: LeaseRef) -> (i64, Epoch) {
    (lease.id, lease.epoch)
}

impl HeldLease {
    fn stop(&self) {
        if let Some(stopper) = &self.stopper {
            stopper.stop();
        }
    }
}
