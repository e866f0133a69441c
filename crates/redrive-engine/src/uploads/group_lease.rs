//! The lease on a group while it is uploaded (UPL-7).

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_store::{
    ClaimedGroup, GroupClaim, ItemGroup, LeaseRef, LeaseRelease, Leased, Result, Store, WorkerId,
    Written,
};
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    Stop, Stopper,
    worker::lease_clock::{ClockReading, later},
};

/// Another process is uploading the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupBusy {
    pub owner: WorkerId,
    /// From the journal, if it has a recent entry.
    pub started: Option<GroupStart>,
    /// The rest of the lease; the owner may renew it.
    pub remaining: Duration,
}

/// The start of an upload, from the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStart {
    pub at: Timestamp,
    /// The operator who started it.
    pub by: String,
}

/// The owner, the time of the start, and the operator.
impl fmt::Display for GroupBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.started {
            Some(GroupStart { at, by }) => write!(f, "{} since {at}, for {by}", self.owner),
            None => self.owner.fmt(f),
        }
    }
}

/// Renews the lease until it is released or dropped. A dropped lease expires.
pub struct GroupLease {
    store: Arc<dyn Store>,
    lease: LeaseRef,
    owner: WorkerId,
    lost: Stop,
    renewer: JoinHandle<()>,
}

impl GroupLease {
    /// Claims a group, unless another process holds it.
    pub async fn take(
        store: Arc<dyn Store>,
        group: &ItemGroup,
        owner: WorkerId,
        length: Duration,
    ) -> Result<std::result::Result<Self, GroupBusy>> {
        let ClockReading { shared: now, local: requested } = ClockReading::now(store.now());
        let lease_until = later(now, length);
        let claim = GroupClaim { group: group.clone(), owner: owner.clone(), now, lease_until };
        let lease = match store.claim_group(&claim).await? {
            ClaimedGroup::Held(lease) => lease,
            ClaimedGroup::Busy { owner, until } => {
                let remaining = Duration::try_from(until.duration_since(store.now()));
                let remaining = remaining.unwrap_or_default();
                return Ok(Err(GroupBusy { owner, started: None, remaining }));
            }
        };
        redrive_store::failpoint!("engine.upload.group_held");
        let (stopper, lost) = Stopper::new();
        let renewer = tokio::spawn(renew(store.clone(), lease, requested, length, stopper));
        Ok(Ok(Self { store, lease, owner, lost, renewer }))
    }

    pub fn lease(&self) -> LeaseRef {
        self.lease
    }

    /// Stops when the lease is lost. Another process may hold the group then, so nothing more may be sent.
    pub fn lost(&self) -> Stop {
        self.lost.clone()
    }

    /// Releases the group, so that the next upload need not wait for the end of the lease.
    pub async fn release(self, why: &str, at: Timestamp) -> Result<Written> {
        self.renewer.abort();
        let back =
            LeaseRelease { lease: self.lease, owner: self.owner.clone(), why: why.to_owned() };
        let written = self.store.release_leases(Leased::Group, &[back], at).await?;
        redrive_store::failpoint!("engine.upload.group_released");
        Ok(written.into_iter().next().unwrap_or(Written::Stale))
    }
}

impl fmt::Debug for GroupLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupLease").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl Drop for GroupLease {
    fn drop(&mut self) {
        self.renewer.abort();
    }
}

/// Renews after a third of the lease, and at once if the lease clock was set meanwhile. Ends, and signals that
/// the lease is lost, when another process holds the lease or when it cannot be renewed in time.
async fn renew(
    store: Arc<dyn Store>,
    lease: LeaseRef,
    mut requested: Instant,
    length: Duration,
    lost: Stopper,
) {
    let step = length / 3;
    let mut rest = step;
    loop {
        tokio::time::sleep(rest).await;
        rest = step;
        let now = ClockReading::now(store.now());
        let (leases, until) = ([lease], later(now.shared, length));
        let renewal = store.renew_leases(Leased::Group, &leases, until);
        match tokio::time::timeout(step, renewal).await {
            Ok(Ok(written)) if written == [Written::Applied] => {
                requested = now.local;
                if ClockReading::now(store.now()).has_jumped_since(&now, step / 2) {
                    rest = Duration::ZERO;
                }
            }
            Ok(Ok(_)) => {
                tracing::warn!(
                    epoch = lease.epoch.0,
                    "lost the lease on the group; another process may upload it"
                );
                return lost.stop();
            }
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot renew the lease on the group");
            }
            Err(_) => tracing::warn!(
                "cannot renew the lease on the group: the store did not respond in time"
            ),
        }
        // This process stops before another one may claim the group.
        if requested.elapsed() >= length.saturating_sub(step) {
            tracing::warn!(
                "the lease on the group is about to expire and cannot be renewed; the upload stops"
            );
            return lost.stop();
        }
    }
}
