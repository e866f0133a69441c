//! Leases: which worker holds a unit, and until when.
//!
//! A claim sets owner, epoch and end of the lease on the row of the unit. The holder renews the
//! lease. When a lease has ended, the reaper decides about the unit as about any other failure. The
//! epoch is the fencing token: it grows with every claim, and a write with an older epoch changes
//! nothing.
//!
//! The end of a lease is a time on the store's clock, [`Store::now`](crate::Store::now), which does
//! not jump.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{Epoch, PartitionKey, PartitionRunId, PipelineRunId, RunId, SampleId, Unit};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{FromRow, ItemGroup, JournalEntry, Result, RowReader, pipeline_entry, sample_unit};

/// Identifies a worker process. Random at each start, so that a new process on the same host is
/// never mistaken for the old one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct WorkerId(pub String);

impl WorkerId {
    pub(crate) fn read_optional(row: &mut impl RowReader) -> Result<Option<Self>> {
        let owner: Option<String> = row.get()?;
        Ok(owner.map(Self))
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The result of a guarded write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a stale write changed nothing"]
pub enum Written {
    Applied,
    /// Another worker holds the unit, or the unit has changed; nothing was written.
    Stale,
}

impl Written {
    pub fn from_changed(changed: bool) -> Self {
        if changed { Self::Applied } else { Self::Stale }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leased {
    /// Partitions, by the id of their work row.
    Partition,
    Run,
    /// Upload groups.
    Group,
    Sample,
    /// Sources of pipeline runs.
    Feed,
}

impl Leased {
    pub const ALL: [Self; 5] = [Self::Partition, Self::Run, Self::Group, Self::Sample, Self::Feed];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseRef {
    /// The id of the row with the lease: a run, a sample, the work row of a partition, a group or a
    /// pipeline run.
    pub id: i64,
    pub epoch: Epoch,
}

impl FromRow for LeaseRef {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self { id: row.get()?, epoch: Epoch(row.get()?) })
    }
}

/// A lease that was not renewed in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredLease {
    pub lease: LeaseRef,
    pub owner: WorkerId,
    /// The end of the lease, on the store's clock.
    pub until: Timestamp,
    /// When the attempt began, by the clock of its worker; `None` where the store does not keep it.
    pub claimed_at: Option<Timestamp>,
}

impl FromRow for ExpiredLease {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            lease: LeaseRef::from_row(row)?,
            owner: WorkerId(row.get()?),
            until: row.timestamp()?,
            claimed_at: row.optional_timestamp()?,
        })
    }
}

/// Why workers release units that they did not start: the gate of the unit was found closed, the unit was not started within
/// the time that a gate gave it, or the claim was not answered. After other releases an attempt may have begun.
pub const NEVER_STARTED: [&str; 3] = ["gate_closed", "start_missed", "claim_unanswered"];

/// A unit that a worker releases without an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRelease {
    pub lease: LeaseRef,
    pub owner: WorkerId,
    /// The reason for the journal: `shutdown`, `paused` or `done`.
    pub why: String,
}

impl LeaseRelease {
    pub fn each(leases: &[LeaseRef], owner: &WorkerId, why: &str) -> Vec<Self> {
        let back =
            |lease: &LeaseRef| Self { lease: *lease, owner: owner.clone(), why: why.to_owned() };
        leases.iter().map(back).collect()
    }

    pub fn run_entry(&self, at: Timestamp) -> JournalEntry {
        let details = json!({ "why": self.why, "epoch": self.lease.epoch.0 });
        let unit = Unit::Run(RunId(self.lease.id)).to_string();
        self.entry("run.handback", Some(unit), &details, at)
    }

    /// Includes the partition run that was started and will not finish.
    pub fn partition_entry(
        &self,
        key: &PartitionKey,
        run_id: Option<&PartitionRunId>,
        at: Timestamp,
    ) -> JournalEntry {
        let details = json!({
            "why": self.why,
            "epoch": self.lease.epoch.0,
            "work": self.lease.id,
            "run_id": run_id.map(PartitionRunId::as_str),
        });
        let unit = Unit::Partition(key.clone()).to_string();
        self.entry("partition.handback", Some(unit), &details, at)
    }

    /// A group is not a unit, so the entry has a filter instead.
    pub fn group_entry(&self, group: &ItemGroup, at: Timestamp) -> JournalEntry {
        let details = json!({ "why": self.why, "epoch": self.lease.epoch.0 });
        let filter = json!({ "upload": group.upload, "group": group.group });
        let entry = self.entry("upload.handback", None, &details, at);
        JournalEntry { filter: Some(filter.to_string()), ..entry }
    }

    pub fn sample_entry(&self, stage: &str, at: Timestamp) -> JournalEntry {
        let details = json!({ "why": self.why, "epoch": self.lease.epoch.0 });
        let unit = sample_unit(SampleId(self.lease.id), stage);
        self.entry("sample.handback", Some(unit), &details, at)
    }

    /// A source is not a unit, so the entry has a filter instead.
    pub fn feed_entry(&self, at: Timestamp) -> JournalEntry {
        let details = json!({ "why": self.why, "epoch": self.lease.epoch.0 });
        let run = PipelineRunId(self.lease.id);
        pipeline_entry(run, "pipeline.handback", &details, at, &self.owner.0)
    }

    fn entry(
        &self,
        action: &str,
        unit: Option<String>,
        details: &Value,
        at: Timestamp,
    ) -> JournalEntry {
        JournalEntry {
            at,
            actor: self.owner.0.clone(),
            action: action.to_owned(),
            unit,
            filter: None,
            details: details.to_string(),
            dedupe_key: None,
        }
    }
}

#[async_trait]
pub trait Leases: Send + Sync {
    /// Extends leases. An earlier end than the current one is ignored. `Stale` means that the lease
    /// is lost and the holder must stop.
    async fn renew_leases(
        &self,
        kind: Leased,
        leases: &[LeaseRef],
        until: Timestamp,
    ) -> Result<Vec<Written>>;

    /// A page of leases that end at or before `now` on the store's clock, of one owner or of all,
    /// with ids above `after`, by id. Paging by id means that rows which cannot be finished never
    /// hide the others.
    async fn expired_leases(
        &self,
        kind: Leased,
        now: Timestamp,
        owner: Option<&WorkerId>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ExpiredLease>>;

    /// The earliest end of all leases that end after `now`, on the store's clock.
    async fn next_lease_end(&self, kind: Leased, now: Timestamp) -> Result<Option<Timestamp>>;

    /// Releases units: they are claimable at once, counts stay unchanged, no ledger row, one
    /// journal row each.
    async fn release_leases(
        &self,
        kind: Leased,
        releases: &[LeaseRelease],
        at: Timestamp,
    ) -> Result<Vec<Written>>;
}
