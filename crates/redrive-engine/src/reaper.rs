//! Units whose worker was lost come back.
//!
//! The reaper is a loop, never a step at start-up, and nothing depends on there being one: several do
//! no harm, because each end is guarded by the lease it was read with. A lost worker is a failure
//! like any other and goes through the same decision; so a unit that kills every worker is given up
//! within its budget.

use std::sync::Arc;

use redrive_store::{Result, Written};

use crate::{stop::Stop, work::Work};

/// Ended leases that are decided about at a time.
const PAGE: u32 = 500;

/// Looks for ended leases until told to stop. Every end is guarded, so it may be stopped anywhere.
pub(crate) async fn reap_all<W: Work>(work: Arc<W>, mut stop: Stop) {
    let reap_on = async {
        loop {
            if let Err(error) = reap(&*work).await {
                tracing::warn!(
                    work = work.name(),
                    error = &error as &dyn std::error::Error,
                    "cannot look for lost workers"
                );
            }
            tokio::time::sleep(work.pace().lease / 2).await;
        }
    };
    tokio::select! {
        biased;
        () = stop.told() => {}
        () = reap_on => {}
    }
}

/// Decides about every unit whose lease has ended, and says how many there were. Pages go on by id,
/// so that units nobody here can decide about never hide the rest.
pub(crate) async fn reap<W: Work>(work: &W) -> Result<usize> {
    let (mut after, mut reaped) = (i64::MIN, 0);
    loop {
        let expired = work.expired(after, PAGE).await?;
        let Some(last) = expired.last() else { return Ok(reaped) };
        after = last.lease.id;
        let ends = work.lost(&expired).await?;
        let written = work.finish(&ends).await?;
        for (end, written) in ends.iter().zip(written) {
            work.written(end, written);
            reaped += usize::from(written == Written::Applied);
        }
    }
}
