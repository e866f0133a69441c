//! Renews leases, and stops attempts whose lease was lost.

use std::{sync::Arc, time::Duration};

use redrive_retry::Stop;
use redrive_store::Written;

use crate::worker::{
    held_leases::{HeldLeases, LeaseHealth},
    lease_clock::{ClockReading, later, lease_margin, usable_lease},
    work::Work,
};

/// Renews all held leases until stopped.
///
/// When another worker took a lease, its attempt is stopped; the store would refuse its result anyway. When the store
/// does not answer, a lease is given up shortly before its end, so that the attempt is over before another worker may
/// start one.
pub(crate) async fn renew_all<W: Work>(work: Arc<W>, held: Arc<HeldLeases>, mut stop: Stop) {
    tokio::select! {
        biased;
        () = stop.stopped() => {}
        () = renew(&*work, &held) => {}
        () = watch(&*work, &held) => {}
    }
}

/// Renews at a third of the lease; soon again after a store that did not answer; at once if the lease clock jumped
/// meanwhile, because by that clock the renewed leases may have ended.
async fn renew<W: Work>(work: &W, held: &HeldLeases) {
    let (lease, store) = (work.limits().lease, work.leases());
    let mut rest = lease / 3;
    loop {
        tokio::time::sleep(rest).await;
        rest = lease / 3;
        let leases = held.leases();
        if leases.is_empty() {
            continue;
        }
        let requested = ClockReading::now(store.lease_now());
        let renewal = store.renew(&leases, later(requested.shared, lease));
        match tokio::time::timeout(lease / 3, renewal).await {
            Ok(Ok(written)) => {
                redrive_store::failpoint!("engine.renew.written");
                held.renewed(&leases, requested.local);
                let now = ClockReading::now(store.lease_now());
                if now.has_jumped_since(&requested, lease_margin(lease)) {
                    rest = Duration::ZERO;
                }
                for (lease, written) in leases.into_iter().zip(written) {
                    // A result that was just written ends its lease as well.
                    if written == Written::Stale && held.is_running(lease) {
                        tracing::warn!(
                            work = work.name(),
                            id = lease.id,
                            epoch = lease.epoch.0,
                            "lease lost; stopping its attempt"
                        );
                        held.degrade(lease, LeaseHealth::Lost);
                    }
                }
            }
            Ok(Err(error)) => {
                rest = lease_margin(lease) / 2;
                tracing::warn!(
                    work = work.name(),
                    leases = leases.len(),
                    error = &error as &dyn std::error::Error,
                    "cannot renew leases"
                );
            }
            Err(_) => {
                rest = lease_margin(lease) / 2;
                tracing::warn!(work = work.name(), "renewing leases takes too long");
            }
        }
    }
}

/// Gives up leases that are about to end. Checks twice as often as necessary and never waits for the store: a renewal that
/// hangs must not keep an attempt alive.
async fn watch<W: Work>(work: &W, held: &HeldLeases) {
    let lease = work.limits().lease;
    loop {
        tokio::time::sleep(lease_margin(lease) / 2).await;
        for lease in held.older_than(usable_lease(lease)) {
            tracing::warn!(
                work = work.name(),
                id = lease.id,
                "lease about to end; stopping its attempt"
            );
            held.degrade(lease, LeaseHealth::Expiring);
        }
    }
}
