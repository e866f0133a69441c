//! One claim of a worker loop, followed by a look at the backlog if nothing was claimable.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_store::{Backlog, Result};
use tokio::{task::JoinHandle, time::Instant};

use crate::worker::{
    held_leases::HeldLeases,
    lease_clock::{ClockReading, later, usable_lease},
    work::Work,
    worker_loop::Until,
};

/// The answer to a claim.
pub(crate) struct ClaimAnswer<W: Work> {
    pub(crate) units: Vec<W::Unit>,
    pub(crate) requested_units: usize,
    pub(crate) requested_at: Instant,
    /// Whether the leases are about to end, or another worker has the units already.
    pub(crate) late: bool,
    /// What there is to do later, if nothing was claimable.
    pub(crate) backlog: Option<Backlog>,
}

/// A claim that the store has not answered yet.
pub(crate) struct PendingClaim<W: Work> {
    pub(crate) requested_units: usize,
    task: JoinHandle<Result<ClaimAnswer<W>>>,
}

impl<W: Work> PendingClaim<W> {
    pub(crate) fn start(
        work: Arc<W>,
        held: Arc<HeldLeases>,
        requested_units: usize,
        limit: u32,
        until: Until,
    ) -> Self {
        let requested = ClockReading::now(work.leases().lease_now());
        let lease_until = later(requested.shared, work.limits().lease);
        held.claim_sent(lease_until);
        let claim = claim(work, requested_units, limit, (requested.local, lease_until), until);
        Self { requested_units, task: tokio::spawn(claim) }
    }
}

/// Claims units, and reads the backlog if there are none.
///
/// An answer may take so long that the leases are about to end, or another worker has them already. Such units are not
/// started: they are released, if the leases are still valid.
async fn claim<W: Work>(
    work: Arc<W>,
    requested_units: usize,
    limit: u32,
    (requested_at, lease_until): (Instant, Timestamp),
    until: Until,
) -> Result<ClaimAnswer<W>> {
    // A claim that hangs may have been made. That must be known while its leases are valid.
    let answer =
        tokio::time::timeout(work.limits().lease / 2, work.claim(limit, lease_until)).await;
    let units = answer.unwrap_or_else(|late| {
        let doing = "claiming".to_owned();
        Err(redrive_store::Error::Unavailable { doing, source: late.into() })
    })?;
    redrive_store::failpoint!("engine.claim.answered");
    let late = is_late(&*work, requested_at);
    let backlog = match until {
        _ if !units.is_empty() => None,
        Until::Drained => work.backlog().await.ok(),
        // A loop without an end does not need to know whether others hold units.
        Until::Stopped => {
            let due = work.next_due().await.ok();
            due.map(|next_due| Backlog { ready: false, held: true, next_due })
        }
    };
    Ok(ClaimAnswer { units, requested_units, requested_at, late, backlog })
}

/// Whether a lease that was requested at a time is too close to its end to start an attempt.
pub(crate) fn is_late<W: Work>(work: &W, requested_at: Instant) -> bool {
    requested_at.elapsed() >= usable_lease(work.limits().lease)
}

/// Waits for the pending claim; forever without one.
pub(crate) async fn claim_answer<W: Work>(
    pending: &mut Option<PendingClaim<W>>,
) -> Result<ClaimAnswer<W>> {
    let Some(PendingClaim { task, .. }) = pending else { return std::future::pending().await };
    let answer = task.await;
    *pending = None;
    answer.unwrap_or_else(|error| {
        let doing = "claiming".to_owned();
        Err(redrive_store::Error::Unavailable { doing, source: error.into() })
    })
}
