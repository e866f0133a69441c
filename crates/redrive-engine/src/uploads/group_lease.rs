//! Holding a group while it is uploaded (UPL-7).

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_store::{
    ClaimedGroup, GroupClaim, HandBack, ItemGroup, LeaseRef, Leased, Result, Store, WorkerId,
    Written,
};
use tokio::task::JoinHandle;

use crate::{Stop, Stopper};

/// Someone else is uploading the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupBusy {
    /// Who.
    pub owner: WorkerId,
    /// How long at least, unless it renews its lease.
    pub remaining: Duration,
}

/// A held group. Its lease is renewed until it is released or dropped; dropped without a release, it
/// ends by itself.
pub struct GroupLease {
    store: Arc<dyn Store>,
    lease: LeaseRef,
    owner: WorkerId,
    lost: Stop,
    renewing: JoinHandle<()>,
}

impl GroupLease {
    /// Takes a group, or says who has it.
    pub async fn take(
        store: Arc<dyn Store>,
        group: &ItemGroup,
        owner: WorkerId,
        length: Duration,
    ) -> Result<std::result::Result<Self, GroupBusy>> {
        let now = store.now();
        let lease_until = later(now, length);
        let claim = GroupClaim { group: group.clone(), owner: owner.clone(), now, lease_until };
        let lease = match store.claim_group(&claim).await? {
            ClaimedGroup::Held(lease) => lease,
            ClaimedGroup::Busy { owner, until } => {
                let remaining = Duration::try_from(until.duration_since(store.now()));
                return Ok(Err(GroupBusy { owner, remaining: remaining.unwrap_or_default() }));
            }
        };
        redrive_store::failpoint!("engine.upload.group_held");
        let (stopper, lost) = Stopper::new();
        let renewing = tokio::spawn(renew(store.clone(), lease, lease_until, length, stopper));
        Ok(Ok(Self { store, lease, owner, lost, renewing }))
    }

    /// Hears when the lease was lost: someone else may have the group, so nothing more may be sent.
    pub fn lost(&self) -> Stop {
        self.lost.clone()
    }

    /// Gives the group back, so that the next one need not wait.
    pub async fn release(self, why: &str, at: Timestamp) -> Result<Written> {
        self.renewing.abort();
        let back = HandBack { lease: self.lease, owner: self.owner.clone(), why: why.to_owned() };
        let written = self.store.hand_back(Leased::Group, &[back], at).await?;
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
        self.renewing.abort();
    }
}

/// Renews at a third of the lease. Ends, and so tells that the lease is lost, when someone else has it,
/// or when it cannot be kept any longer.
async fn renew(
    store: Arc<dyn Store>,
    lease: LeaseRef,
    mut until: Timestamp,
    length: Duration,
    lost: Stopper,
) {
    let step = length / 3;
    loop {
        tokio::time::sleep(step).await;
        let next = later(store.now(), length);
        match tokio::time::timeout(step, store.renew_leases(Leased::Group, &[lease], next)).await {
            Ok(Ok(written)) if written == [Written::Applied] => until = next,
            Ok(Ok(_)) => {
                tracing::warn!(epoch = lease.epoch.0, "the lease on the group was lost");
                return lost.stop();
            }
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot renew the lease on the group");
            }
            Err(_) => tracing::warn!("cannot renew the lease on the group: no answer in time"),
        }
        // Whoever cannot renew is through before another may begin.
        if later(store.now(), step) >= until {
            tracing::warn!("the lease on the group ends, and cannot be renewed");
            return lost.stop();
        }
    }
}

fn later(now: Timestamp, length: Duration) -> Timestamp {
    now.checked_add(length).unwrap_or(Timestamp::MAX)
}
