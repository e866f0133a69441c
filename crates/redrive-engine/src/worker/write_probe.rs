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

struct LastWrite {
    written: Option<ProbedWrite>,
    /// Whether writes may have failed since.
    failed: bool,
}

/// Nothing is known of the writes of others before the first one here, so they may have failed.
impl Default for LastWrite {
    fn default() -> Self {
        Self { written: None, failed: true }
    }
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

    /// The store did not take a write, or may not have taken those of others.
    pub(crate) async fn failed(&self) {
        *self.0.lock().await = LastWrite { written: None, failed: true };
    }
}

impl LastWrite {
    /// The first write, and the first after one that failed, counts as one that waited: only now can the holders of leases
    /// renew them.
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

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use redrive_core::Epoch;
    use redrive_store::{ExpiredLease, WorkerId, Written};

    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    /// A store whose second write waits for its lock.
    #[derive(Default)]
    struct Locked(Mutex<usize>);

    #[async_trait]
    impl UnitLeases for Locked {
        fn worker(&self) -> &WorkerId {
            unreachable!()
        }

        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn lease_now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        async fn renew(&self, leases: &[LeaseRef], _: Timestamp) -> Result<Vec<Written>> {
            let mut writes = self.0.lock().await;
            *writes += 1;
            if *writes == 2 {
                tokio::time::advance(LEASE / 3).await;
            }
            Ok(vec![Written::Applied; leases.len()])
        }

        async fn release(&self, _: &[LeaseRef], _: &str) -> Result<Vec<Written>> {
            unreachable!()
        }

        async fn next_lease_end(&self, _: Timestamp) -> Result<Option<Timestamp>> {
            unreachable!()
        }

        async fn expired(
            &self,
            _: Timestamp,
            _: Option<&WorkerId>,
            _: i64,
            _: u32,
        ) -> Result<Vec<ExpiredLease>> {
            unreachable!()
        }
    }

    /// The second member would find the store prompt, and take workers for lost whose renewals waited with the first
    /// write.
    #[tokio::test(start_paused = true)]
    async fn a_slow_write_of_one_member_is_not_probed_again_by_the_next() {
        let (store, probe) = (Locked::default(), WriteProbe::default());
        let lease = LeaseRef { id: 1, epoch: Epoch(1) };
        let is_prompt = || probe.is_prompt(&store, lease, Timestamp::UNIX_EPOCH, LEASE);
        assert!(!is_prompt().await.unwrap(), "others may have waited for the first write");
        tokio::time::advance(LEASE).await;
        let members = tokio::join!(is_prompt(), is_prompt(), is_prompt());
        assert!(matches!(members, (Ok(false), Ok(false), Ok(false))), "{members:?}");
        assert_eq!(*store.0.lock().await, 2);
        tokio::time::advance(LEASE / 6).await;
        assert!(is_prompt().await.unwrap(), "renewals that waited are written by now");
    }
}
