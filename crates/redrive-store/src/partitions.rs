//! Partitions: extracted once per day, claimed, validated and read.
//!
//! `partition_state` has the state of a partition. The request and the lease are in a row of
//! `partition_work`, which exists only while a request is outstanding or the partition is paused.
//! [`LeaseRef::id`] is the id of the work row. Every request gets a new row, so a lease of an
//! earlier request never matches a later one.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, DateRange, Epoch, FailedPartition, Failure, LogicalDate, PartitionId,
    PartitionKey, PartitionRunId, PartitionState, PartitionStatus, StoredFailure,
};

use crate::{
    AuditContext, Backlog, Error, FromRow, GatePass, GateRules, LeaseRef, LetThrough,
    NamedPartition, Operator, PageLimit, PartitionAction, PartitionChange, PassedGates, Result,
    RowReader, Selection, WorkerId, Written,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionRecord {
    /// The id of the row, for the ledger.
    pub id: PartitionId,
    pub key: PartitionKey,
    pub status: PartitionStatus,
    /// The run whose data is current.
    pub current_run_id: Option<PartitionRunId>,
    /// The schema version of the current run.
    pub schema_version: Option<String>,
    /// The number of records of the current run.
    pub record_count: Option<u64>,
    /// The number of verdicts; never decreases.
    pub attempt_count: u32,
    pub error_message: Option<String>,
    pub updated_at: Timestamp,
    /// From the ledger.
    pub first_attempt_at: Option<Timestamp>,
    pub last_failure: Option<PartitionFailure>,
    pub work: Option<PartitionWorkRecord>,
}

impl FromRow for PartitionRecord {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            id: PartitionId(row.get()?),
            key: FromRow::from_row(row)?,
            status: row.named("status", PartitionStatus::from_name)?,
            current_run_id: row.optional_named("current_run_id", |id| id.parse().ok())?,
            schema_version: row.get()?,
            record_count: row.optional_count("record_count")?,
            attempt_count: row.count("attempt_count")?,
            error_message: row.get()?,
            updated_at: row.timestamp()?,
            first_attempt_at: row.optional_timestamp()?,
            work: FromRow::from_row(row)?,
            last_failure: FromRow::from_row(row)?,
        })
    }
}

impl FromRow for PartitionKey {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let (source, customer_id): (String, String) = (row.get()?, row.get()?);
        let (query_name, date): (String, _) = (row.get()?, row.date("logical_date")?);
        Self::new(&source, &customer_id, &query_name, date)
            .map_err(|invalid| Error::bad_value(row.doing(), invalid.field, invalid.value))
    }
}

impl FromRow for (LogicalDate, PartitionStatus) {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let date = row.date("logical_date")?;
        Ok((date, row.named("status", PartitionStatus::from_name)?))
    }
}

impl PartitionRecord {
    /// A pending partition without a verdict or a request.
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
            last_failure: None,
            work: None,
        }
    }

    pub fn state(&self) -> PartitionState {
        let request = self.work.as_ref().and_then(|work| work.request.as_ref());
        let reprocess = request.is_some_and(|request| request.kind == WorkKind::Reprocess);
        PartitionState::of(self.status, self.error_message.as_deref(), reprocess)
    }

    pub fn paused(&self) -> Option<&Operator> {
        self.work.as_ref().and_then(|work| work.paused.as_ref())
    }

    /// The input of the retry forecast; `None` unless the partition has failed.
    pub fn failed(&self) -> Option<FailedPartition<'_>> {
        (self.status == PartitionStatus::Failed).then_some(FailedPartition {
            attempt_count: self.attempt_count,
            error_message: self.error_message.as_deref(),
            updated_at: self.updated_at,
            first_attempt_at: self.first_attempt_at,
            logical_date: self.key.logical_date(),
            asked: self.last_failure.as_ref().and_then(|failure| failure.asked),
            failure: self.last_failure.as_ref().map(PartitionFailure::stored),
        })
    }
}

/// The last failure of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionFailure {
    pub class: String,
    pub code: String,
    pub fingerprint: String,
    pub at: Timestamp,
    /// The wait that the server asked for, if this was the last attempt.
    pub asked: Option<Duration>,
}

impl PartitionFailure {
    /// For the rules of a policy, of which those at a source have no origin.
    fn stored(&self) -> StoredFailure<'_> {
        let Self { class, code, fingerprint, .. } = self;
        StoredFailure { class, code, origin: None, fingerprint }
    }
}

/// The columns are all null if the partition never failed.
impl FromRow for Option<PartitionFailure> {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let (class, code): (Option<_>, Option<_>) = (row.get()?, row.get()?);
        let (fingerprint, at): (Option<_>, _) = (row.get()?, row.optional_timestamp()?);
        let asked = row.optional_count("asked_us")?.map(Duration::from_micros);
        let failure = class.zip(code).zip(fingerprint.zip(at));
        Ok(failure.map(|((class, code), (fingerprint, at))| PartitionFailure {
            class,
            code,
            fingerprint,
            at,
            asked,
        }))
    }
}

/// A row of `partition_work`: the request for a partition, its lease and its pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionWorkRecord {
    /// The id that leases refer to.
    pub id: i64,
    /// `None` if the partition is only paused.
    pub request: Option<WorkRequest>,
    /// The run that was started; `None` while no worker holds the partition.
    pub run_id: Option<PartitionRunId>,
    pub lease_owner: Option<WorkerId>,
    /// The epoch of the last lease.
    pub lease_epoch: Epoch,
    /// The end of the lease, on the store's clock.
    pub lease_until: Option<Timestamp>,
    pub paused: Option<Operator>,
}

/// The columns are all null for a partition without a work row.
impl FromRow for Option<PartitionWorkRecord> {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let id: Option<i64> = row.get()?;
        let kind = row.optional_named("kind", WorkKind::from_name)?;
        let lane = row.optional_named("lane", Lane::from_name)?;
        let (requested_at, requested_by) = (row.optional_timestamp()?, row.get()?);
        let request = kind.zip(lane).zip(requested_at.zip(requested_by));
        let run_id = row.optional_named("run_id", |id| id.parse().ok())?;
        let lease_owner = WorkerId::read_optional(row)?;
        let lease_epoch: Option<i64> = row.get()?;
        let lease_until = row.optional_timestamp()?;
        let (paused_at, paused_by): (_, Option<_>) = (row.optional_timestamp()?, row.get()?);
        let reason = row.get()?;
        let paused = paused_at.zip(paused_by);
        Ok(id.map(|id| PartitionWorkRecord {
            id,
            request: request.map(|((kind, lane), (requested_at, requested_by))| WorkRequest {
                kind,
                lane,
                requested_at,
                requested_by,
            }),
            run_id,
            lease_owner,
            lease_epoch: Epoch(lease_epoch.unwrap_or_default()),
            lease_until,
            paused: paused.map(|(at, actor)| Operator { actor, at, reason }),
        }))
    }
}

/// A request for an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkRequest {
    pub kind: WorkKind,
    pub lane: Lane,
    /// The order within a lane.
    pub requested_at: Timestamp,
    pub requested_by: String,
}

/// The reason for an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// The partition has no verdict yet.
    First,
    Retry,
    /// The partition is successful and is processed again.
    Reprocess,
}

impl WorkKind {
    pub const ALL: [Self; 3] = [Self::First, Self::Retry, Self::Reprocess];

    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Retry => "retry",
            Self::Reprocess => "reprocess",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The two kinds of requests that share the workers of a source by weight (PAR-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Current data.
    Fresh,
    /// Historical data.
    Backfill,
}

impl Lane {
    pub const ALL: [Self; 2] = [Self::Fresh, Self::Backfill];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Backfill => "backfill",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lane| lane.name() == name)
    }
}

/// A request to claim partitions.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionClaim {
    pub source: String,
    /// One new, unused run id for each partition to claim; their number is the limit.
    pub run_ids: Vec<PartitionRunId>,
    /// While both lanes have requests. Capacity that one lane leaves goes to the other.
    pub backfill: BackfillShare,
    pub owner: WorkerId,
    /// The end of the leases, on the store's clock.
    pub lease_until: Timestamp,
    /// The gates that the partitions pass, with their customer as the key.
    pub gates: GateRules,
    /// The wall clock, for the periods of the gates.
    pub now: Timestamp,
}

/// What backfill gets of a claim, whose size is not known before the gates are read.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BackfillShare {
    pub share: f64,
    /// Partitions that backfill should have got so far; negative if it got too many.
    pub owed: f64,
}

impl BackfillShare {
    /// How many partitions of `limit` go to backfill.
    pub fn quota(&self, limit: u32) -> u32 {
        let due = self.owed + self.share * f64::from(limit);
        // Compensates for rounding: a sum of 0.999… counts as 1.
        ((due + 1e-9).floor().max(0.0) as u32).min(limit)
    }
}

impl PartitionClaim {
    pub fn limit(&self) -> u32 {
        u32::try_from(self.run_ids.len()).unwrap_or(u32::MAX)
    }

    /// Chooses the work rows to claim, the oldest of each lane, with the share of backfill while both lanes have some. `most` is
    /// how many each customer may have; capacity that one lane leaves goes to the other. The lane that is owed something goes
    /// first: the other might take all that a customer may have.
    pub fn choose(
        &self,
        mut candidates: Vec<PartitionCandidate>,
        limit: u32,
        most: &[(String, u32)],
    ) -> Vec<i64> {
        candidates.sort_unstable_by_key(|one| (one.requested_at, one.id));
        let all = most.iter().fold(0_u32, |all, (customer, most)| {
            let its = candidates.iter().filter(|one| one.customer_id == *customer).count();
            all.saturating_add(u32::try_from(its).unwrap_or(u32::MAX).min(*most))
        });
        let limit = limit.min(self.limit()).min(all);
        let mut left: HashMap<&str, u32> =
            most.iter().map(|(customer, most)| (customer.as_str(), *most)).collect();
        let mut chosen: Vec<i64> = Vec::new();
        let mut take = |lane: Lane, up_to: usize| {
            for one in candidates.iter().filter(|one| one.lane == lane) {
                if chosen.len() >= up_to {
                    return chosen.len();
                }
                if let Some(left) = left.get_mut(one.customer_id.as_str())
                    && *left > 0
                    && !chosen.contains(&one.id)
                {
                    *left -= 1;
                    chosen.push(one.id);
                }
            }
            chosen.len()
        };
        let quota = self.backfill.quota(limit) as usize;
        let limit = limit as usize;
        if self.backfill.owed > 0.0 {
            take(Lane::Backfill, quota);
        } else {
            let backfill = candidates.iter().filter(|one| one.lane == Lane::Backfill).count();
            take(Lane::Fresh, limit.saturating_sub(backfill.min(quota)));
            take(Lane::Backfill, limit);
        }
        take(Lane::Fresh, limit);
        take(Lane::Backfill, limit);
        chosen
    }
}

/// A request that a claim behind gates may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionCandidate {
    /// Of the work row.
    pub id: i64,
    pub customer_id: String,
    pub lane: Lane,
    pub requested_at: Timestamp,
}

impl FromRow for PartitionCandidate {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            id: row.get()?,
            customer_id: row.get()?,
            lane: row.named("lane", Lane::from_name)?,
            requested_at: row.timestamp()?,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedPartition {
    /// The id of the row, for the ledger.
    pub id: PartitionId,
    pub key: PartitionKey,
    /// The id of the work row, and the epoch.
    pub lease: LeaseRef,
    pub run_id: PartitionRunId,
    pub request: WorkRequest,
    /// The number of this attempt in the ledger.
    pub attempt: AttemptNumber,
    /// How the partition passed its gates.
    pub pass: GatePass,
}

impl ClaimedPartition {
    /// `None` if no worker holds the partition.
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
            pass: GatePass::default(),
        })
    }
}

impl ClaimedPartition {
    pub fn let_through(&self) -> LetThrough<'_> {
        LetThrough { id: self.lease.id, epoch: self.lease.epoch.0, key: self.key.customer_id() }
    }

    /// The records that are held under one of the leases, each once.
    pub fn under(leases: &[LeaseRef], records: Vec<PartitionRecord>) -> Vec<Self> {
        let mut leases: HashSet<LeaseRef> = leases.iter().copied().collect();
        let claimed = records.into_iter().filter_map(Self::of);
        Self::in_order(claimed.filter(|claimed| leases.remove(&claimed.lease)))
    }

    /// By request time, then by id. Databases return changed rows in no particular order.
    pub fn in_order(claimed: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut claimed: Vec<Self> = claimed.into_iter().collect();
        claimed.sort_unstable_by_key(|one| (one.request.requested_at, one.lease.id));
        claimed
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionVerdict {
    Accepted {
        record_count: u64,
        /// The schema version from the metadata.
        schema_version: Option<String>,
    },
    /// The raw partition is invalid or missing.
    Rejected { failure: Failure },
}

/// A finished attempt at a partition, with the validator's verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionFinish {
    pub key: PartitionKey,
    pub lease: LeaseRef,
    pub attempt: AttemptNumber,
    pub run_id: PartitionRunId,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub worker: WorkerId,
    pub verdict: PartitionVerdict,
    /// The gates that the partition has passed; `None` if its source has none.
    pub gates: Option<PassedGates>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionCount {
    pub source: String,
    pub status: PartitionStatus,
    pub partitions: u64,
}

impl PartitionCount {
    /// By source, then by status.
    pub fn in_order(mut counts: Vec<Self>) -> Vec<Self> {
        counts.sort_by(|a, b| (&a.source, a.status).cmp(&(&b.source, b.status)));
        counts
    }
}

/// A partition key without the date.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionSeries {
    pub source: String,
    pub customer_id: String,
    pub query_name: String,
}

#[async_trait]
pub trait Partitions: Send + Sync {
    /// Claims requested partitions of a source that no worker holds: oldest request first in each
    /// lane, with the claim's share for backfill, without paused partitions. The result is ordered
    /// by request time.
    async fn claim_partitions(&self, claim: &PartitionClaim) -> Result<Vec<ClaimedPartition>>;

    /// The partitions that are held under these leases, for the reaper. Leases that no longer exist
    /// are omitted.
    async fn claimed_partitions(&self, leases: &[LeaseRef]) -> Result<Vec<ClaimedPartition>>;

    /// Writes verdicts: state, ledger row and journal rows, each partition in isolation, guarded by
    /// lease, epoch and run. Every verdict ends the request.
    async fn finish_partitions(&self, finishes: &[PartitionFinish]) -> Result<Vec<Written>>;

    /// Applies an action to partitions, each in isolation. One journal row for each changed
    /// partition.
    async fn change_partitions(
        &self,
        action: &PartitionAction,
        named: &[NamedPartition],
        order: &AuditContext,
    ) -> Result<Vec<PartitionChange>>;

    /// Partitions in the order of the keys; `None` for a key without a row.
    async fn partitions_by_key(
        &self,
        keys: &[PartitionKey],
    ) -> Result<Vec<Option<PartitionRecord>>>;

    /// A page of matching partitions beyond a key in the order of the page. Failed partitions have their own index.
    async fn partitions_page(
        &self,
        filter: &Selection,
        after: Option<&PartitionKey>,
        limit: PageLimit,
    ) -> Result<Vec<PartitionRecord>>;

    /// A page of all partitions with ids above `after`, by id, which is the order of the ledger.
    async fn partitions_by_id(
        &self,
        after: PartitionId,
        limit: u32,
    ) -> Result<Vec<PartitionRecord>>;

    /// The days of a series that have a row, in order, with their status.
    async fn partition_dates(
        &self,
        series: &PartitionSeries,
        range: DateRange,
    ) -> Result<Vec<(LogicalDate, PartitionStatus)>>;

    /// Counts by source and status. Reads all partitions.
    async fn partition_counts(&self) -> Result<Vec<PartitionCount>>;

    /// The outstanding work of a source. `next_due` is always `None`, because no partition waits
    /// for a time.
    async fn partition_backlog(&self, source: &str) -> Result<Backlog>;
}
