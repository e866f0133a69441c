//! What the worker loop needs to know of a kind of work.
//!
//! The loop claims, handles, decides and finishes; it never knows what. Runs, partitions, samples and the
//! sources of pipelines plug in here.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::Failure;
use redrive_store::{Backlog, ExpiredLease, LeaseRef, Result, Written};

use crate::{
    traces::{TracedAttempt, Traces},
    worker::handoff::Handoff,
};
use redrive_retry::Stop;

/// How fast and how patiently a kind of work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Units handled at once.
    pub concurrency: usize,
    /// How long a claim holds without a word; renewed at a third of it.
    pub lease: Duration,
    /// How long the loop looks away when there is nothing to do. Notifications make it look sooner.
    pub poll: Duration,
    /// How long running work may go on after the loop was told to stop.
    pub grace: Duration,
}

impl Default for WorkerLimits {
    /// 8 at once, a lease of a minute, a look every second, ten seconds of grace.
    fn default() -> Self {
        Self {
            concurrency: 8,
            lease: Duration::from_secs(60),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(10),
        }
    }
}

impl WorkerLimits {
    /// The same, with no more at once than a handler can work on.
    pub(crate) fn within(self, capacity: Option<usize>) -> Self {
        let concurrency = self.concurrency.min(capacity.unwrap_or(self.concurrency));
        Self { concurrency, ..self }
    }
}

/// What is to be written about a unit after its attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending<E> {
    /// The attempt ended.
    Finish(E),
    /// It was not tried to its end; the unit goes back, uncounted.
    LeaseRelease,
    /// It could not be tried for a reason that lies outside of it, such as a full disk, and that the journal names. The
    /// unit goes back, uncounted, and nothing more is taken for a while.
    Unable(&'static str),
}

/// A kind of work, in one place: a queue, for example.
#[async_trait]
pub trait Work: Send + Sync + 'static {
    /// A unit that is held.
    type Unit: Send + Sync + 'static;
    /// What an attempt came to. One that panicked comes to a failure.
    type Outcome: From<Failure> + Send + 'static;
    /// The end of an attempt, decided and ready to be written.
    type End: Send + Sync + 'static;

    /// What it is called in logs.
    fn name(&self) -> &str;

    /// How it is done.
    fn limits(&self) -> WorkerLimits;

    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// The clock of leases.
    fn lease_now(&self) -> Timestamp;

    /// Whether somebody can set it.
    fn lease_clock_can_be_set(&self) -> bool;

    /// Takes up to so many units, held until a time on the clock of leases.
    async fn claim(&self, limit: u32, until: Timestamp) -> Result<Vec<Self::Unit>>;

    /// Where other loops of the same process hand over units that they keep for this one.
    fn handoff(&self) -> Option<&Handoff<Self::Unit>> {
        None
    }

    /// Under which lease a unit is held.
    fn lease(&self, unit: &Self::Unit) -> LeaseRef;

    /// Makes one attempt.
    async fn handle(&self, unit: &Self::Unit, stop: Stop) -> Self::Outcome;

    /// Decides about an attempt.
    fn end(
        &self,
        unit: &Self::Unit,
        outcome: Self::Outcome,
        started_at: Timestamp,
        ended_at: Timestamp,
    ) -> Ending<Self::End>;

    /// The lease that an end is guarded by.
    fn end_lease(&self, end: &Self::End) -> LeaseRef;

    /// Writes ends, each guarded by its lease.
    async fn finish(&self, ends: &[Self::End]) -> Result<Vec<Written>>;

    /// Hears what became of an end, to log it.
    fn written(&self, end: &Self::End, written: Written);

    /// The attempt that an end is the end of, to trace it; nothing if it is no attempt at a unit.
    fn attempt(&self, _end: &Self::End) -> Option<TracedAttempt> {
        None
    }

    /// Where its attempts are traced.
    fn traces(&self) -> Option<&Traces> {
        None
    }

    /// Moves the end of leases, forward only.
    async fn renew(&self, leases: &[LeaseRef], until: Timestamp) -> Result<Vec<Written>>;

    /// Gives units back without an attempt.
    async fn release_leases(&self, leases: &[LeaseRef], why: &str) -> Result<Vec<Written>>;

    /// Leases that end by a time, by id, after an id, a page at a time.
    async fn expired(&self, by: Timestamp, after: i64, limit: u32) -> Result<Vec<ExpiredLease>>;

    /// The earliest end of all leases that end after a time on the clock of leases.
    async fn next_lease_end(&self, after: Timestamp) -> Result<Option<Timestamp>>;

    /// Decides about units whose holder was lost. Units that are not this work's are left out.
    async fn lost(&self, expired: &[ExpiredLease]) -> Result<Vec<Self::End>>;

    /// What is still to do.
    async fn backlog(&self) -> Result<Backlog>;

    /// When the next waiting unit is due: all that a worker without an end has to know of the outlook.
    async fn next_due(&self) -> Result<Option<Timestamp>> {
        Ok(self.backlog().await?.next_due)
    }
}
