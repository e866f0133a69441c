//! Finds out whether the store takes writes.

use std::time::Duration;

use jiff::Timestamp;
use redrive_retry::monotonic;
use redrive_store::{LeaseRef, Result};
use tokio::{sync::Mutex, time::Instant};

use crate::worker::{lease_clock::lease_margin, unit_leases::UnitLeases};

/// The last write that the store took, and how long it waited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbedWrite {
    pub(crate) at: Instant,
    took: Duration,
}

impl ProbedWrite {
    /// How long until all renewals that were pending at this write are written. `None` if the write is so old that a
    /// lease may have ended for lack of another. A write that waited for half a lease waited for a store that was as
    /// good as unavailable.
    pub(crate) fn wait(self, lease: Duration) -> Option<Duration> {
        let wait = match self.took {
            took if took < lease_margin(lease) => Duration::ZERO,
            took if took < lease / 2 => lease_margin(lease),
            _ => lease / 2,
        };
        let age = self.at.elapsed();
        (age <= lease / 2).then(|| wait.saturating_sub(age))
    }
}

#[derive(Default)]
pub(crate) struct WriteProbe(Mutex<LastWrite>);

#[derive(Default)]
struct LastWrite {
    written: Option<ProbedWrite>,
    /// Whether a write failed since.
    failed: bool,
}

impl WriteProbe {
    pub(crate) async fn last(&self) -> Option<ProbedWrite> {
        self.0.lock().await.written
    }

    /// Whether the store takes writes without waiting, as far as its last write tells, or as a write to a lease tells
    /// now. That write changes nothing.
    pub(crate) async fn is_prompt(
        &self,
        leases: &dyn UnitLeases,
        probed: LeaseRef,
        now: Timestamp,
        lease: Duration,
    ) -> Result<bool> {
        let mut last = self.0.lock().await;
        if let Some(wait) = last.written.and_then(|write| write.wait(lease)) {
            return Ok(wait.is_zero());
        }
        last.write(leases, probed, now, lease).await
    }

    /// Like [`is_prompt`](Self::is_prompt), whatever the last write tells.
    pub(crate) async fn write(
        &self,
        leases: &dyn UnitLeases,
        probed: LeaseRef,
        now: Timestamp,
        lease: Duration,
    ) -> Result<bool> {
        self.0.lock().await.write(leases, probed, now, lease).await
    }

    /// The store did not take a write.
    pub(crate) async fn failed(&self) {
        *self.0.lock().await = LastWrite { written: None, failed: true };
    }
}

impl LastWrite {
    /// The first write after one that failed counts as one that waited: only now can the holders of leases renew them.
    async fn write(
        &mut self,
        leases: &dyn UnitLeases,
        probed: LeaseRef,
        now: Timestamp,
        lease: Duration,
    ) -> Result<bool> {
        let started = monotonic();
        let failed = std::mem::replace(self, Self { written: None, failed: true }).failed;
        leases.renew(&[probed], now).await?;
        let took = if failed { lease } else { started.elapsed() };
        let write = ProbedWrite { at: monotonic(), took };
        *self = Self { written: Some(write), failed: false };
        Ok(write.wait(lease).is_some_and(|wait| wait.is_zero()))
    }
}
