//! The leases of one kind of unit: one implementation for every kind, over the context that all work shares.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Cause, Decision, Failure, History, JitterKey, JitterSeed, Policy, Unit, decide,
};
use redrive_retry::Clock;
use redrive_store::{
    AttemptRecord, ExpiredLease, GateDeclarations, GateRules, LeaseRef, LeaseRelease, Leased,
    MAX_PAGE, Result, Store, UnitRow, WorkerId, Written,
};

use crate::{
    gates::{known_gates::KnownGates, work_gates::WorkGates},
    partitions::fit_trials::FitTrials,
    traces::Traces,
    worker::write_times::WriteTimes,
};

/// What all work of one engine shares.
#[derive(Clone)]
pub(crate) struct WorkContext {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) worker: WorkerId,
    pub(crate) jitter_seed: JitterSeed,
    pub(crate) write_times: Arc<WriteTimes>,
    pub(crate) traces: Traces,
    /// Shared by all sources, because they may share a disk.
    pub(crate) fit_trials: Arc<FitTrials>,
    pub(crate) declared_gates: Arc<GateDeclarations>,
    pub(crate) known_gates: Arc<KnownGates>,
}

impl WorkContext {
    /// Decides what follows a failed attempt. The age of a unit counts from its first attempt, which may be this one.
    pub(crate) fn decide(
        &self,
        policy: &Policy,
        unit: &Unit,
        history: History,
        failure: &Failure,
        (started_at, ended_at): (Timestamp, Timestamp),
    ) -> Decision {
        let first_attempt_at = history.first_attempt_at.or(Some(started_at));
        let history = History { first_attempt_at, ..history };
        decide(policy, &history, failure, ended_at, JitterKey::new(self.jitter_seed, unit))
    }

    /// When an attempt of a lost worker began, and when it ended: now, because it was held until now.
    pub(crate) fn times_of_lost(&self, expired: &ExpiredLease) -> (Timestamp, Timestamp) {
        let now = self.clock.now();
        (expired.claimed_at.unwrap_or(now).min(now), now)
    }

    /// Whether the ledger has this row, and not one that a reaper wrote about the same attempt.
    pub(crate) async fn has_attempt(&self, row: &AttemptRecord) -> Result<bool> {
        let before = AttemptNumber(row.attempt.0.saturating_sub(1));
        let found = self.store.attempts_of(&row.unit, before, 1).await?;
        // Times are stored in microseconds.
        let same = |found: &AttemptRecord| {
            (found.attempt, &found.worker, found.outcome, found.cause)
                == (row.attempt, &row.worker, row.outcome, row.cause)
                && found.ended_at.as_microsecond() == row.ended_at.as_microsecond()
        };
        Ok(found.iter().any(same))
    }

    /// How many workers a unit has lost since its last reset without an attempt being counted. Only a policy with
    /// `max_lost` needs to know.
    pub(crate) async fn lost_before(
        &self,
        policy: &Policy,
        unit: &UnitRow,
        attempts_at_reset: u32,
    ) -> Result<u32> {
        if policy.spec().max_lost.is_none() {
            return Ok(0);
        }
        let (mut lost, mut after) = (0_u32, AttemptNumber(attempts_at_reset));
        loop {
            let attempts = self.store.attempts_of(unit, after, MAX_PAGE).await?;
            let Some(last) = attempts.last() else { return Ok(lost) };
            after = last.attempt;
            let ours = |row: &&AttemptRecord| row.cause == Some(Cause::LostWorker) && !row.counted;
            let count = attempts.iter().filter(ours).count();
            lost = lost.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    pub(crate) fn gates(&self, rules: GateRules) -> WorkGates {
        WorkGates::new(rules, self.declared_gates.clone(), self.known_gates.clone())
    }

    pub(crate) fn leases(&self, kind: Leased) -> StoreLeases {
        StoreLeases { kind, context: self.clone() }
    }
}

/// The leases of one kind of unit, and the clocks by which they are judged.
#[async_trait]
pub trait UnitLeases: Send + Sync {
    /// The id under which this process holds leases.
    fn worker(&self) -> &WorkerId;

    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// The lease clock, which all workers of a store share.
    fn lease_now(&self) -> Timestamp;

    /// Extends leases. An end never moves backwards.
    async fn renew(&self, leases: &[LeaseRef], until: Timestamp) -> Result<Vec<Written>>;

    /// Releases units without an attempt.
    async fn release(&self, leases: &[LeaseRef], why: &str) -> Result<Vec<Written>>;

    /// A page of leases that end at or before a time, of one worker or of all, ordered by id, after an id.
    async fn expired(
        &self,
        by: Timestamp,
        owner: Option<&WorkerId>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ExpiredLease>>;

    /// The earliest lease end after a time on the lease clock.
    async fn next_lease_end(&self, after: Timestamp) -> Result<Option<Timestamp>>;
}

/// The leases of one kind of unit in a store.
pub(crate) struct StoreLeases {
    kind: Leased,
    context: WorkContext,
}

#[async_trait]
impl UnitLeases for StoreLeases {
    fn worker(&self) -> &WorkerId {
        &self.context.worker
    }

    fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    fn lease_now(&self) -> Timestamp {
        self.context.store.now()
    }

    async fn renew(&self, leases: &[LeaseRef], until: Timestamp) -> Result<Vec<Written>> {
        self.context.store.renew_leases(self.kind, leases, until).await
    }

    async fn release(&self, leases: &[LeaseRef], why: &str) -> Result<Vec<Written>> {
        let releases = LeaseRelease::each(leases, &self.context.worker, why);
        self.context.store.release_leases(self.kind, &releases, self.now()).await
    }

    async fn expired(
        &self,
        by: Timestamp,
        owner: Option<&WorkerId>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ExpiredLease>> {
        self.context.store.expired_leases(self.kind, by, owner, after, limit).await
    }

    async fn next_lease_end(&self, after: Timestamp) -> Result<Option<Timestamp>> {
        self.context.store.next_lease_end(self.kind, after).await
    }
}
