//! Releases units without an attempt: they are claimable again at once, and nothing is counted.

use redrive_store::LeaseRef;

use crate::worker::{held_leases::HeldLeases, store_retry::StoreRetry, work::Work};

/// The worker stops.
pub(crate) const SHUTDOWN: &str = "shutdown";

/// The lease was about to end, because the store answered late or not at all.
pub(crate) const LATE: &str = "late";

/// The gate of the unit was found closed before the unit was started.
pub(crate) const GATE_CLOSED: &str = "gate_closed";

/// The unit was not started within the time that a gate with a rate gave it.
pub(crate) const START_MISSED: &str = "start_missed";

/// The claim was not answered. This worker did not know that it held the unit, so no attempt began.
pub(crate) const UNANSWERED: &str = "claim_unanswered";

/// Writes releases until the store has answered.
pub(crate) async fn release<W: Work>(
    work: &W,
    held: &HeldLeases,
    mut leases: Vec<LeaseRef>,
    why: &str,
) {
    leases.sort_unstable_by_key(|lease| lease.id);
    let units = leases.len();
    redrive_store::failpoint!("engine.hand_back.sending");
    let mut retry = StoreRetry::new(work.name(), "releases", units).within(work.limits().lease);
    let released = loop {
        match work.leases().release(&leases, why).await {
            Err(error) if error.is_transient() => retry.wait_after(&error).await,
            answer => break answer,
        }
    };
    match released {
        Ok(_) => tracing::info!(work = work.name(), units, why, "released"),
        Err(error) => tracing::error!(
            work = work.name(),
            units,
            error = &error as &dyn std::error::Error,
            "cannot release units; they are retried when their leases end"
        ),
    }
    redrive_store::failpoint!("engine.hand_back.written");
    held.remove(leases);
}
