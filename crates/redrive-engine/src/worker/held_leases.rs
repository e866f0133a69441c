//! The units a worker holds: under which lease, until when, and how to stop them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redrive_core::Epoch;
use redrive_store::LeaseRef;
use tokio::{sync::Notify, time::Instant};

use redrive_retry::{Stop, Stopper};

/// One held unit.
struct Unit {
    /// When its lease was asked for: it has been good for its whole length since, or for longer. By the
    /// runtime's clock, which nobody sets.
    asked: Instant,
    stopper: Option<Stopper>,
    /// Its attempt is over, and what became of it is on the way to the store.
    ended: bool,
    grip: LeaseHealth,
}

/// How sure a worker is of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseHealth {
    /// Its lease is good.
    Firm,
    /// Its lease was about to end, because the store did not answer. Nobody else has it as far as
    /// anyone knows: it is kept until its attempt has stopped, and then handed back.
    Slipping,
    /// Someone else has it.
    Lost,
}

/// Everything a worker holds, shared by the tasks that handle, renew and finish.
///
/// By id and epoch: a unit may come back to the worker that had it before, while the end of the
/// earlier attempt is still on its way. In order, so that the same things happen in the same order.
#[derive(Default)]
pub(crate) struct Held {
    units: Mutex<BTreeMap<(i64, Epoch), Unit>>,
    freed: Notify,
}

impl Held {
    /// Adds units whose leases were asked for at a time.
    pub(crate) fn add(&self, leases: impl IntoIterator<Item = LeaseRef>, asked: Instant) {
        let mut units = self.units();
        for lease in leases {
            let unit = Unit { asked, stopper: None, ended: false, grip: LeaseHealth::Firm };
            units.insert(key(lease), unit);
        }
    }

    /// Begins an attempt; what is returned hears when it must end.
    pub(crate) fn start(&self, lease: LeaseRef) -> Stop {
        let (stopper, stop) = Stopper::new();
        if let Some(unit) = self.units().get_mut(&key(lease)) {
            if unit.grip != LeaseHealth::Firm {
                stopper.stop();
            }
            unit.stopper = Some(stopper);
        }
        stop
    }

    /// Notes that an attempt is over. The unit is held until its result is written.
    pub(crate) fn ended(&self, lease: LeaseRef) {
        if let Some(unit) = self.units().get_mut(&key(lease)) {
            unit.ended = true;
        }
    }

    /// Whether an attempt at the unit is still to end.
    pub(crate) fn is_under_way(&self, lease: LeaseRef) -> bool {
        self.units()
            .get(&key(lease))
            .is_some_and(|unit| unit.grip != LeaseHealth::Lost && !unit.ended)
    }

    /// Stops the attempts of all units.
    pub(crate) fn stop_all(&self) {
        for unit in self.units().values() {
            unit.stop();
        }
    }

    /// Notes that units are held for longer: their leases were asked for again.
    pub(crate) fn renewed(&self, leases: &[LeaseRef], asked: Instant) {
        let mut units = self.units();
        for lease in leases {
            if let Some(unit) = units.get_mut(&key(*lease)) {
                unit.asked = asked;
            }
        }
    }

    /// Notes that a unit can no longer be relied on, and stops its attempt.
    pub(crate) fn loosen(&self, lease: LeaseRef, grip: LeaseHealth) {
        if let Some(unit) = self.units().get_mut(&key(lease)) {
            unit.grip = grip;
            unit.stop();
        }
    }

    /// How sure the worker is of a unit.
    pub(crate) fn grip(&self, lease: LeaseRef) -> LeaseHealth {
        self.units().get(&key(lease)).map_or(LeaseHealth::Lost, |unit| unit.grip)
    }

    /// Whether the unit is in hand, however loosely.
    pub(crate) fn holds(&self, lease: LeaseRef) -> bool {
        self.units().contains_key(&key(lease))
    }

    /// Lets go of units.
    pub(crate) fn remove(&self, leases: impl IntoIterator<Item = LeaseRef>) {
        let mut units = self.units();
        for lease in leases {
            units.remove(&key(lease));
        }
        self.freed.notify_one();
    }

    /// Says that there may be room, or work, that was not there before.
    pub(crate) fn stir(&self) {
        self.freed.notify_one();
    }

    /// Waits until units were let go, so that there is room for others.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Every lease that is worth keeping.
    pub(crate) fn leases(&self) -> Vec<LeaseRef> {
        self.leases_where(|unit| unit.grip != LeaseHealth::Lost)
    }

    /// The leases that were asked for so long ago, and whose attempts are not over.
    pub(crate) fn older_than(&self, age: Duration) -> Vec<LeaseRef> {
        self.leases_where(|unit| {
            unit.grip == LeaseHealth::Firm && !unit.ended && unit.asked.elapsed() >= age
        })
    }

    fn leases_where(&self, wanted: impl Fn(&Unit) -> bool) -> Vec<LeaseRef> {
        let units = self.units();
        let wanted = units.iter().filter(|(_, unit)| wanted(unit));
        wanted.map(|((id, epoch), _)| LeaseRef { id: *id, epoch: *epoch }).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.units().len()
    }

    /// A panic while the lock was held leaves the map as it was: every change is one insert, one
    /// removal or one field.
    fn units(&self) -> MutexGuard<'_, BTreeMap<(i64, Epoch), Unit>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(lease: LeaseRef) -> (i64, Epoch) {
    (lease.id, lease.epoch)
}

impl Unit {
    fn stop(&self) {
        if let Some(stopper) = &self.stopper {
            stopper.stop();
        }
    }
}
