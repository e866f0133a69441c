//! Keeping leases alive, and stopping work whose lease was lost.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_store::Written;

use crate::worker::{
    held_leases::{Held, LeaseHealth},
    lease_clock::Reading,
    work::Work,
};
use redrive_retry::Stop;

/// Renews everything that is held, until told to stop.
///
/// A lease that someone else took is lost: its attempt is stopped, and what it would have written is
/// refused anyway. A lease that could not be renewed because the store does not answer is given up
/// shortly before its end, so that the attempt is over before another worker may begin one.
pub(crate) async fn renew_all<W: Work>(work: Arc<W>, held: Arc<Held>, mut stop: Stop) {
    tokio::select! {
        biased;
        () = stop.stopped() => {}
        () = renew(&*work, &held) => {}
        () = watch(&*work, &held) => {}
    }
}

/// Renews at a third of the lease, and soon again after a store that did not answer: once it is back,
/// every moment counts. At once, if the clock of leases was set meanwhile: by that clock, what was just renewed
/// may have ended.
async fn renew<W: Work>(work: &W, held: &Held) {
    let lease = work.limits().lease;
    let mut rest = lease / 3;
    loop {
        tokio::time::sleep(rest).await;
        rest = lease / 3;
        let leases = held.leases();
        if leases.is_empty() {
            continue;
        }
        let asked = Reading::now(work.lease_now());
        let renewal = work.renew(&leases, later(asked.shared, lease));
        match tokio::time::timeout(lease / 3, renewal).await {
            Ok(Ok(written)) => {
                redrive_store::failpoint!("engine.renew.written");
                held.renewed(&leases, asked.here);
                if Reading::now(work.lease_now()).has_jumped_since(&asked, margin(work)) {
                    rest = Duration::ZERO;
                }
                for (lease, written) in leases.into_iter().zip(written) {
                    // A result that was written just now ends its lease as well.
                    if written == Written::Stale && held.is_under_way(lease) {
                        tracing::warn!(
                            work = work.name(),
                            id = lease.id,
                            epoch = lease.epoch.0,
                            "lease lost; its attempt is stopped"
                        );
                        held.loosen(lease, LeaseHealth::Lost);
                    }
                }
            }
            Ok(Err(error)) => {
                rest = margin(work) / 2;
                tracing::warn!(
                    work = work.name(),
                    leases = leases.len(),
                    error = &error as &dyn std::error::Error,
                    "cannot renew leases"
                );
            }
            Err(_) => {
                rest = margin(work) / 2;
                tracing::warn!(work = work.name(), "renewing leases takes too long");
            }
        }
    }
}

/// Gives up leases that are about to end. Looks twice as often as it must, and never waits for the
/// store: a renewal that hangs must not keep an attempt alive.
async fn watch<W: Work>(work: &W, held: &Held) {
    loop {
        tokio::time::sleep(margin(work) / 2).await;
        for lease in held.older_than(relied_on(work)) {
            tracing::warn!(work = work.name(), id = lease.id, "lease about to end; work stopped");
            held.loosen(lease, LeaseHealth::Slipping);
        }
    }
}

/// How long after it was asked for a lease is relied on.
pub(crate) fn relied_on<W: Work>(work: &W) -> Duration {
    work.limits().lease.saturating_sub(margin(work))
}

/// How long before its end a lease is no longer relied on.
pub(crate) fn margin<W: Work>(work: &W) -> Duration {
    work.limits().lease / 6
}

/// A time on the clock of leases.
pub(crate) fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}
