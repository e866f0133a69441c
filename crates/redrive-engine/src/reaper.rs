//! Units whose worker was lost come back.
//!
//! The reaper is a loop, never a step at start-up, and nothing depends on there being one: several do
//! no harm, because each end is guarded by the lease it was read with. A lost worker is a failure
//! like any other and goes through the same decision; so a unit that kills every worker is given up
//! within its budget.
//!
//! A worker is lost if it is silent while the store can hear it. When the store was away, every
//! lease may have ended without anybody being lost: the holders get time to renew, to write what
//! they have and to hand back what they stopped, before anything is counted against a unit.

use std::{sync::Arc, time::Duration};

use redrive_store::{ExpiredLease, Result, Written};

use crate::{held::Held, stop::Stop, work::Work};

/// Ended leases that are decided about at a time.
const PAGE: u32 = 500;

/// Looks for ended leases until told to stop. Every end is guarded, so it may be stopped anywhere.
pub(crate) async fn reap_all<W: Work>(work: Arc<W>, held: Arc<Held>, mut stop: Stop) {
    tokio::select! {
        biased;
        () = stop.told() => {}
        () = reap_on(&*work, &held) => {}
    }
}

async fn reap_on<W: Work>(work: &W, held: &Held) {
    let lease = work.pace().lease;
    loop {
        match look(work, held).await {
            Ok(rest) => tokio::time::sleep(rest).await,
            Err(error) => {
                tracing::warn!(
                    work = work.name(),
                    error = &error as &dyn std::error::Error,
                    "cannot look for lost workers"
                );
                loop {
                    tokio::time::sleep(lease / 6).await;
                    if work.next_lease_end().await.is_ok() {
                        break;
                    }
                }
                tokio::time::sleep(lease / 2).await;
            }
        }
    }
}

/// Brings back what was lost, and says how long to rest: until the next lease ends, if nobody renews
/// it. Not much shorter, so that leases that end one after the other are looked at together.
async fn look<W: Work>(work: &W, held: &Held) -> Result<Duration> {
    if reap(work, held).await? > 0 {
        held.stir();
    }
    let lease = work.pace().lease;
    let Some(end) = work.next_lease_end().await? else { return Ok(lease / 2) };
    let left = Duration::try_from(end.duration_since(work.lease_now())).unwrap_or_default();
    Ok(left.clamp(lease / 60, lease / 2))
}

/// Decides about every unit whose lease has ended, and says how many there were. Pages go on by id,
/// so that units nobody here can decide about never hide the rest. What the worker itself has in
/// hand is not lost.
async fn reap<W: Work>(work: &W, held: &Held) -> Result<usize> {
    let (mut after, mut reaped) = (i64::MIN, 0);
    loop {
        let mut expired = work.expired(after, PAGE).await?;
        let Some(last) = expired.last() else { return Ok(reaped) };
        redrive_store::failpoint!("engine.reap.looked");
        after = last.lease.id;
        expired.retain(|expired: &ExpiredLease| !held.holds(expired.lease));
        reaped += bring_back(work, &expired).await?;
    }
}

/// Decides about units and writes it, and says how many came back. What the store refuses is tried
/// one by one, so that one bad row strands no other.
async fn bring_back<W: Work>(work: &W, expired: &[ExpiredLease]) -> Result<usize> {
    match (bring_back_together(work, expired).await, expired) {
        (Err(refusal), [one]) if !refusal.is_transient() => {
            tracing::error!(
                work = work.name(),
                id = one.lease.id,
                error = &refusal as &dyn std::error::Error,
                "a unit whose worker was lost cannot be brought back"
            );
            Ok(0)
        }
        (Err(refusal), several) if !refusal.is_transient() => {
            let mut back = 0;
            for one in several.chunks(1) {
                back += Box::pin(bring_back(work, one)).await?;
            }
            Ok(back)
        }
        (answer, _) => answer,
    }
}

async fn bring_back_together<W: Work>(work: &W, expired: &[ExpiredLease]) -> Result<usize> {
    let ends = work.lost(expired).await?;
    redrive_store::failpoint!("engine.reap.decided");
    let written = work.finish(&ends).await?;
    redrive_store::failpoint!("engine.reap.written");
    let mut back = 0;
    for (end, written) in ends.iter().zip(written) {
        work.written(end, written);
        back += usize::from(written == Written::Applied);
    }
    Ok(back)
}
