//! Partitions: what is extracted day by day, claimed, judged and read.
//!
//! `partition_state` says what a partition is, and nothing else. What is asked for and who holds it is
//! in a row of work beside it, which lives only while something is outstanding or the partition is
//! paused. The lease is on that row: [`LeaseRef::id`] is the id of the row of work, and since every
//! request gets a row of its own, a lease of an earlier request can never match a later one.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, DateRange, Epoch, FailedPartition, Failure, LogicalDate, PartitionId,
    PartitionKey, PartitionRunId, PartitionState, PartitionStatus,
};

use crate::{
    AuditContext, Backlog, LeaseRef, NamedPartition, Operator, PartitionAction, PartitionChange,
    PartitionFilter, Result, WorkerId, Written,
};

/// A partition as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionRecord {
    /// Its row, for the ledger.
    pub id: PartitionId,
    /// Its key.
    pub key: PartitionKey,
    /// Its status.
    pub status: PartitionStatus,
    /// The run that has authority.
    pub current_run_id: Option<PartitionRunId>,
    /// The schema of that run.
    pub schema_version: Option<String>,
    /// How many records that run has.
    pub record_count: Option<u64>,
    /// How many verdicts there were; never goes down.
    pub attempt_count: u32,
    /// What was wrong with the last attempt.
    pub error_message: Option<String>,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When its first attempt began, from the ledger.
    pub first_attempt_at: Option<Timestamp>,
    /// What is outstanding.
    pub work: Option<PartitionWorkRecord>,
}

impl PartitionRecord {
    /// One that was never judged, with nothing asked for yet.
    pub fn new(id: PartitionId, key: PartitionKey, at: Timestamp) -> Self {
        Self {
            id,
            key,
            status: PartitionStatus::Pending,
            current_run_id: None,
            schema_version: None,
            record_count: None,
            attempt_count: 0,
            error_message: None,
            updated_at: at,
            first_attempt_at: None,
            work: None,
        }
    }

    /// Its state.
    pub fn state(&self) -> PartitionState {
        let request = self.work.as_ref().and_then(|work| work.request.as_ref());
        let reprocess = request.is_some_and(|request| request.kind == WorkKind::Reprocess);
        PartitionState::of(self.status, self.error_message.as_deref(), reprocess)
    }

    /// Who paused it, when and why.
    pub fn paused(&self) -> Option<&Operator> {
        self.work.as_ref().and_then(|work| work.paused.as_ref())
    }

    /// What the judgement of a failed partition needs; none if it is not failed.
    pub fn failed(&self) -> Option<FailedPartition<'_>> {
        (self.status == PartitionStatus::Failed).then_some(FailedPartition {
            attempt_count: self.attempt_count,
            error_message: self.error_message.as_deref(),
            updated_at: self.updated_at,
            first_attempt_at: self.first_attempt_at,
        })
    }
}

/// What is asked for, and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionWorkRecord {
    /// Its row, by which leases name it.
    pub id: i64,
    /// What is asked for; none if the partition is only paused.
    pub request: Option<WorkRequest>,
    /// The run that was begun; none while nobody holds it.
    pub run_id: Option<PartitionRunId>,
    /// Who holds it.
    pub lease_owner: Option<WorkerId>,
    /// The last epoch it was held under.
    pub lease_epoch: Epoch,
    /// Until when it is held, on the store's clock.
    pub lease_until: Option<Timestamp>,
    /// Who paused the partition, when and why.
    pub paused: Option<Operator>,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkRequest {
    /// What for.
    pub kind: WorkKind,
    /// With whom it competes.
    pub lane: Lane,
    /// When it was asked for; the order within a lane.
    pub requested_at: Timestamp,
    /// By whom.
    pub requested_by: String,
}

/// What an attempt is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// The partition has never been judged.
    First,
    /// The last attempt failed.
    Retry,
    /// It is good, and is to be done again.
    Reprocess,
}

impl WorkKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::First, Self::Retry, Self::Reprocess];

    /// The name under which the kind is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Retry => "retry",
            Self::Reprocess => "reprocess",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The two kinds of demand that share a source's workers by weight (PAR-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// What somebody waits for.
    Fresh,
    /// History.
    Backfill,
}

impl Lane {
    /// Both lanes.
    pub const ALL: [Self; 2] = [Self::Fresh, Self::Backfill];

    /// The name under which the lane is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Backfill => "backfill",
        }
    }

    /// The lane of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lane| lane.name() == name)
    }
}

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionClaim {
    /// Partitions of this source alone.
    pub source: String,
    /// One for each partition it would take: the runs it will begin. None of them may have been used
    /// before.
    pub run_ids: Vec<PartitionRunId>,
    /// How many of them go to backfill while there is both. What one lane leaves, the other gets.
    pub backfill: u32,
    /// For this worker.
    pub owner: WorkerId,
    /// Held until then, on the store's clock.
    pub lease_until: Timestamp,
}

impl PartitionClaim {
    /// At most so many are taken.
    pub fn limit(&self) -> u32 {
        u32::try_from(self.run_ids.len()).unwrap_or(u32::MAX)
    }
}

/// A partition that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedPartition {
    /// Its row, for the ledger.
    pub id: PartitionId,
    /// Its key.
    pub key: PartitionKey,
    /// The row of work and the epoch under which it is held.
    pub lease: LeaseRef,
    /// The run that is begun.
    pub run_id: PartitionRunId,
    /// What was asked for.
    pub request: WorkRequest,
    /// The number this attempt will have in the ledger.
    pub attempt: AttemptNumber,
}

impl ClaimedPartition {
    /// From a record that is held; none if it is not.
    pub fn of(record: PartitionRecord) -> Option<Self> {
        let work = record.work?;
        work.lease_owner?;
        Some(Self {
            id: record.id,
            key: record.key,
            lease: LeaseRef { id: work.id, epoch: work.lease_epoch },
            run_id: work.run_id?,
            request: work.request?,
            attempt: AttemptNumber(record.attempt_count.saturating_add(1)),
        })
    }
}

impl ClaimedPartition {
    /// What of these records is held under one of these leases, each once.
    pub fn under(leases: &[LeaseRef], records: Vec<PartitionRecord>) -> Vec<Self> {
        let mut leases: HashSet<LeaseRef> = leases.iter().copied().collect();
        let claimed = records.into_iter().filter_map(Self::of);
        Self::in_order(claimed.filter(|claimed| leases.remove(&claimed.lease)))
    }

    /// By request time, ties by their rows. A database promises no order of what it changes.
    pub fn in_order(claimed: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut claimed: Vec<Self> = claimed.into_iter().collect();
        claimed.sort_unstable_by_key(|one| (one.request.requested_at, one.lease.id));
        claimed
    }
}

/// What the validator says of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionVerdict {
    /// Its raw partition is good.
    Accepted {
        /// How many records it has.
        record_count: u64,
        /// What its metadata says of its schema.
        schema_version: Option<String>,
    },
    /// It is bad, or there is none.
    Rejected {
        /// Why.
        failure: Failure,
    },
}

/// The end of an attempt at a partition: the validator's verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionFinish {
    /// The partition.
    pub key: PartitionKey,
    /// Under which lease it was held.
    pub lease: LeaseRef,
    /// The number of the attempt, as its claim said.
    pub attempt: AttemptNumber,
    /// The run that was judged.
    pub run_id: PartitionRunId,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// When it was judged.
    pub ended_at: Timestamp,
    /// Who ran it.
    pub worker: WorkerId,
    /// What was judged.
    pub verdict: PartitionVerdict,
}

/// How many partitions of a source are in a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionCount {
    /// The source.
    pub source: String,
    /// The status.
    pub status: PartitionStatus,
    /// How many.
    pub partitions: u64,
}

impl PartitionCount {
    /// By source, then by status in the order of life.
    pub fn in_order(mut counts: Vec<Self>) -> Vec<Self> {
        counts.sort_by(|a, b| (&a.source, a.status).cmp(&(&b.source, b.status)));
        counts
    }
}

/// What is extracted day by day: everything of a key but the date.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionSeries {
    /// The source.
    pub source: String,
    /// The customer.
    pub customer_id: String,
    /// The query.
    pub query_name: String,
}

/// The partitions of a store.
#[async_trait]
pub trait Partitions: Send + Sync {
    /// Takes what is asked for of a source and nobody holds: oldest request first in each lane, the
    /// lanes sharing as the claim says, nothing that is paused. They come by request time.
    async fn claim_partitions(&self, claim: &PartitionClaim) -> Result<Vec<ClaimedPartition>>;

    /// What is held under these leases; those that are gone are left out. For judging what a lost
    /// worker held.
    async fn claimed_partitions(&self, leases: &[LeaseRef]) -> Result<Vec<ClaimedPartition>>;

    /// Writes verdicts: state, ledger row and journal rows, each partition by itself, guarded by lease,
    /// epoch and run. The request is done with, whatever the verdict.
    async fn finish_partitions(&self, finishes: &[PartitionFinish]) -> Result<Vec<Written>>;

    /// Does to partitions what the control plane wishes, each by itself, and says what became of each.
    /// One journal row for each that changed.
    async fn change_partitions(
        &self,
        action: &PartitionAction,
        named: &[NamedPartition],
        order: &AuditContext,
    ) -> Result<Vec<PartitionChange>>;

    /// Partitions by key, in the order of the keys; none where there is no entry.
    async fn partitions_by_key(
        &self,
        keys: &[PartitionKey],
    ) -> Result<Vec<Option<PartitionRecord>>>;

    /// The partitions that match, by key, after a key, a page at a time. Failed ones are found by an
    /// index of their own.
    async fn partitions_page(
        &self,
        filter: &PartitionFilter,
        after: Option<&PartitionKey>,
        limit: u32,
    ) -> Result<Vec<PartitionRecord>>;

    /// Every partition by id, after an id, a page at a time: beside the ledger, which is in that order.
    async fn partitions_by_id(
        &self,
        after: PartitionId,
        limit: u32,
    ) -> Result<Vec<PartitionRecord>>;

    /// The days of a series that have an entry, in order, with their status.
    async fn partition_dates(
        &self,
        series: &PartitionSeries,
        range: DateRange,
    ) -> Result<Vec<(LogicalDate, PartitionStatus)>>;

    /// How many partitions there are, by source and status. Reads all of them.
    async fn partition_counts(&self) -> Result<Vec<PartitionCount>>;

    /// What a source still has to do. Nothing waits for a time by itself, so nothing is ever due later.
    async fn partition_backlog(&self, source: &str) -> Result<Backlog>;
}
