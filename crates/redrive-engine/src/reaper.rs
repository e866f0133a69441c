//! Units whose worker was lost come back.
//!
//! The reaper is a loop, never a step at start-up, and nothing depends on there being one: several do
//! no harm, because each end is guarded by the lease it was read with. A lost worker is a failure
//! like any other and goes through the same decision; so a unit that kills every worker is given up
//! within its budget.
//!
//! A worker is lost if it is silent while the store can hear it. When the store was away, every
//! lease may have ended without anybody being lost: the holders get time to renew, to write what
//! they have and to hand back what they stopped, before anything is counted against a unit. A store
//! may answer questions and take no writes, because its disk is full or another process has it
//! locked; so nobody is taken for lost before a write went through, and quickly.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_store::{ExpiredLease, LeaseRef, Result, Written};

use crate::{
    clock::monotonic,
    held::Held,
    renewer::{later, margin},
    settled::settled,
    stop::Stop,
    work::Work,
};

/// Ended leases that are decided about at a time.
const PAGE: u32 = 500;

/// Before the end of every lease; some ends are put at 1970.
const THE_BEGINNING: Timestamp = Timestamp::constant(-1, 0);

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
    let mut away = false;
    loop {
        let mut look = Look { work, held, away, heard: false };
        let rest = match look.over().await {
            Ok(rest) => {
                away = false;
                rest.unwrap_or(lease / 2)
            }
            Err(error) => {
                if !away {
                    tracing::warn!(
                        work = work.name(),
                        error = &error as &dyn std::error::Error,
                        "cannot look for lost workers"
                    );
                }
                away = true;
                lease / 6
            }
        };
        tokio::time::sleep(rest).await;
    }
}

/// One look at all ended leases. What it answers with `None` is: nobody may be taken for lost yet.
struct Look<'a, W> {
    work: &'a W,
    held: &'a Held,
    /// Whether the store did not answer the look before.
    away: bool,
    /// Whether the store took a write since.
    heard: bool,
}

impl<W: Work> Look<'_, W> {
    /// Brings back what was lost, and says how long to rest: until the next lease ends, if nobody
    /// renews it. Not much shorter, so that leases that end one after the other are looked at together.
    ///
    /// Asks for the earliest end first. Mostly it is still to come, and that is all there is to know: a
    /// store may have to read every unit it has for each question about leases.
    async fn over(&mut self) -> Result<Option<Duration>> {
        let (work, lease) = (self.work, self.work.pace().lease);
        let mut next = work.next_lease_end(THE_BEGINNING).await?;
        if next.is_some_and(|end| end <= work.lease_now()) {
            let Some(back) = self.reap().await? else { return Ok(None) };
            if back > 0 {
                self.held.stir();
            }
            next = work.next_lease_end(work.lease_now()).await?;
        }
        let Some(end) = next.filter(|_| !self.away) else { return Ok(None) };
        let left = Duration::try_from(end.duration_since(work.lease_now())).unwrap_or_default();
        Ok(Some(left.clamp(lease / 60, lease / 2)))
    }

    /// Decides about every unit whose lease has ended, and says how many came back. Pages go on by id,
    /// so that units nobody here can decide about never hide the rest. What the worker itself has in
    /// hand is not lost.
    async fn reap(&mut self) -> Result<Option<usize>> {
        let (mut after, mut reaped) = (i64::MIN, 0);
        loop {
            let mut expired = self.work.expired(after, PAGE).await?;
            let Some(last) = expired.last() else { return Ok(Some(reaped)) };
            redrive_store::failpoint!("engine.reap.looked");
            after = last.lease.id;
            expired.retain(|expired: &ExpiredLease| !self.held.holds(expired.lease));
            let Some(back) = self.bring_back(&expired).await? else { return Ok(None) };
            reaped += back;
        }
    }

    /// Decides about units and writes it, and says how many came back. What the store refuses is tried
    /// one by one, so that one bad row strands no other.
    async fn bring_back(&mut self, expired: &[ExpiredLease]) -> Result<Option<usize>> {
        match (self.bring_back_together(expired).await, expired) {
            (Err(refusal), [one]) if !refusal.is_transient() => {
                tracing::error!(
                    work = self.work.name(),
                    id = one.lease.id,
                    error = &refusal as &dyn std::error::Error,
                    "a unit whose worker was lost cannot be brought back"
                );
                Ok(Some(0))
            }
            (Err(refusal), several) if !refusal.is_transient() => {
                let mut all = 0;
                for one in several.chunks(1) {
                    let Some(back) = Box::pin(self.bring_back(one)).await? else { return Ok(None) };
                    all += back;
                }
                Ok(Some(all))
            }
            (answer, _) => answer,
        }
    }

    async fn bring_back_together(&mut self, expired: &[ExpiredLease]) -> Result<Option<usize>> {
        let ends = self.work.lost(expired).await?;
        redrive_store::failpoint!("engine.reap.decided");
        if let Some(first) = ends.first()
            && !self.is_heard(self.work.end_lease(first)).await?
        {
            return Ok(None);
        }
        let written = self.work.finish(&ends).await?;
        redrive_store::failpoint!("engine.reap.written");
        let mut back = 0;
        for (end, written) in ends.iter().zip(written) {
            settled(self.work, end, written);
            back += usize::from(written == Written::Applied);
        }
        Ok(Some(back))
    }

    /// Whether the store takes writes, and did so all the while: a write that had to wait may be the
    /// first after a long time. The write gives the holder of a lease a little longer.
    async fn is_heard(&mut self, lease: LeaseRef) -> Result<bool> {
        if !self.heard {
            let asked = monotonic();
            let until = later(self.work.lease_now(), self.work.pace().lease / 2);
            self.work.renew(&[lease], until).await?;
            self.heard = !self.away && asked.elapsed() < margin(self.work);
        }
        Ok(self.heard)
    }
}
