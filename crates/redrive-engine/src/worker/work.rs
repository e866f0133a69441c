//! What a kind of work provides to the worker loop.
//!
//! The loop claims, handles, decides and finishes without knowing the kind. Runs, partitions, samples and the sources of
//! pipelines implement [`Work`].

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::Failure;
use redrive_retry::Stop;
use redrive_store::{Backlog, ExpiredLease, LeaseRef, Result, Written};

use tokio::{sync::watch, time::Instant};

use crate::{
    gates::work_gates::Start,
    logs::{LogLimits, WorkLogs},
    traces::{TracedAttempt, Traces},
    worker::{handoff::Handoff, reporter::PlaceCounts, unit_leases::UnitLeases},
};

/// Concurrency and timing of a worker loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Attempts that run at once.
    pub concurrency: usize,
    /// How long a lease is valid without renewal. The worker renews at a third of it.
    pub lease: Duration,
    /// How often an idle loop polls. Notifications wake it earlier.
    pub poll: Duration,
    /// How long running attempts may continue after a stop signal.
    pub grace: Duration,
    /// How much of what handlers log is kept.
    pub log: LogLimits,
}

impl Default for WorkerLimits {
    /// 8 attempts at once, a lease of 60 seconds, a poll every second, 10 seconds of grace, default logs.
    fn default() -> Self {
        Self {
            concurrency: 8,
            lease: Duration::from_secs(60),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(10),
            log: LogLimits::default(),
        }
    }
}

impl WorkerLimits {
    /// Lowers the concurrency to the capacity of a handler.
    pub(crate) fn within(self, capacity: Option<usize>) -> Self {
        let concurrency = self.concurrency.min(capacity.unwrap_or(self.concurrency));
        Self { concurrency, ..self }
    }
}

/// What follows an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Completion<F> {
    /// The attempt ended, and its result is ready to be written.
    Finish(F),
    /// The attempt was stopped. The unit is released, uncounted.
    Release,
    /// The attempt could not run for a reason outside of the unit, such as a full disk. The unit is released, uncounted,
    /// with this reason in the journal, and the loop claims nothing for a while.
    Backpressure(&'static str),
}

/// A kind of work in one place, for example the runs of one queue.
#[async_trait]
pub trait Work: Send + Sync + 'static {
    /// A claimed unit.
    type Unit: Send + Sync + 'static;
    /// The outcome of an attempt. An attempt that panicked has a failure as its outcome.
    type Outcome: From<Failure> + Send + 'static;
    /// The decided result of an attempt, ready to be written.
    type Finish: Send + Sync + 'static;

    /// The name used in logs.
    fn name(&self) -> &str;

    fn limits(&self) -> WorkerLimits;

    /// The leases and the clocks of this kind of unit.
    fn leases(&self) -> &dyn UnitLeases;

    /// Claims up to `limit` units, leased until a time on the lease clock.
    async fn claim(&self, limit: u32, until: Timestamp) -> Result<Vec<Self::Unit>>;

    /// The handoff through which other loops of this process pass units to this loop.
    fn handoff(&self) -> Option<&Handoff<Self::Unit>> {
        None
    }

    fn lease(&self, unit: &Self::Unit) -> LeaseRef;

    /// Whether a unit that was claimed at a time may be started.
    fn start(&self, _unit: &Self::Unit, _claimed_at: Instant) -> Start {
        Start::Now
    }

    /// Changes when a gate may keep claimed units back. `None` without gates.
    fn gate_changes(&self) -> Option<watch::Receiver<()>> {
        None
    }

    /// Whether units may be claimed for which no slot is free. A place that a gate gives is not for a unit that waits for a slot.
    fn claims_ahead(&self) -> bool {
        true
    }

    /// Runs one attempt.
    async fn handle(&self, unit: &Self::Unit, stop: Stop) -> Self::Outcome;

    /// Decides what follows an attempt.
    fn complete(
        &self,
        unit: &Self::Unit,
        outcome: Self::Outcome,
        started_at: Timestamp,
        ended_at: Timestamp,
    ) -> Completion<Self::Finish>;

    /// Decides what follows the attempts of lost workers. Leaves out units of other queues, sources or stages.
    async fn complete_lost(&self, expired: &[ExpiredLease]) -> Result<Vec<Self::Finish>>;

    /// The lease that guards the write of a finish.
    fn finish_lease(&self, finish: &Self::Finish) -> LeaseRef;

    /// Writes results, each guarded by its lease.
    async fn finish(&self, finishes: &[Self::Finish]) -> Result<Vec<Written>>;

    /// Whether this result is in the store already. Asked about a result that the store refuses after an earlier write of
    /// it failed: the earlier write may have been applied, and only its answer lost.
    async fn was_written(&self, _finish: &Self::Finish) -> Result<bool> {
        Ok(false)
    }

    /// Logs a result after it was written or refused.
    fn log_finish(&self, finish: &Self::Finish, written: Written);

    /// The attempt to trace; `None` if the finish is not an attempt at a unit.
    fn attempt(&self, _finish: &Self::Finish) -> Option<TracedAttempt> {
        None
    }

    /// What the handlers of the attempts log; `None` if they do not.
    fn logs(&self) -> Option<&Arc<WorkLogs>> {
        None
    }

    /// The traces that record the attempts.
    fn traces(&self) -> Option<&Traces> {
        None
    }

    /// Where the attempts of this work are counted; `None` for what is no attempt at a unit.
    fn counts(&self) -> Option<&PlaceCounts> {
        None
    }

    /// Counts an attempt whose result was written.
    fn count(&self, _finish: &Self::Finish) {}

    /// How often a program that stays running was started again after a failure.
    fn restarts(&self) -> u64 {
        0
    }

    /// What is left to do.
    async fn backlog(&self) -> Result<Backlog>;

    /// When the next waiting unit is due. A loop that runs until stopped needs nothing else of the backlog.
    async fn next_due(&self) -> Result<Option<Timestamp>> {
        Ok(self.backlog().await?.next_due)
    }
}
