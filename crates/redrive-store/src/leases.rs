//! Leases: who holds a unit, until when, and how it goes back.
//!
//! A claim sets owner, epoch and end on the row itself. The holder renews; whoever finds an ended
//! lease decides about the unit as about any failure. The epoch fences: it grows with every claim,
//! and a write that carries an older one changes nothing.
//!
//! Lease ends live on the store's own clock, [`Store::now`](crate::Store::now), which does not jump.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{Epoch, PartitionKey, PartitionRunId, PipelineRunId, RunId, SampleId, Unit};
use serde_json::{Value, json};

use crate::{ItemGroup, JournalEntry, Result, pipeline_entry, sample_unit};

/// Names a worker process; random at each start, so that a reused host name is never mistaken for
/// the process that had it before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkerId(pub String);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What became of a guarded write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a stale write changed nothing"]
pub enum Written {
    /// The state changed.
    Applied,
    /// Someone else has the unit by now; nothing changed.
    Stale,
}

impl Written {
    /// What a guarded statement did, from whether it changed its row.
    pub fn from_changed(changed: bool) -> Self {
        if changed { Self::Applied } else { Self::Stale }
    }
}

/// The kinds of unit that are leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leased {
    /// Partitions, by their row of work.
    Partition,
    /// Runs in a queue.
    Run,
    /// Groups of items that are being uploaded.
    Group,
    /// Samples at a stage of a pipeline.
    Sample,
    /// Sources of pipeline runs that are being read.
    Feed,
}

/// A held unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseRef {
    /// The id of the row that has the lease: a run, a sample, the work of a partition, a group
    /// or a pipeline run.
    pub id: i64,
    /// The epoch under which it is held.
    pub epoch: Epoch,
}

/// A unit whose holder has not renewed in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredLease {
    /// What is held, and under which epoch.
    pub lease: LeaseRef,
    /// Who held it.
    pub owner: WorkerId,
    /// When the lease ended, on the store's clock.
    pub until: Timestamp,
}

/// A unit to give back without an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRelease {
    /// What is held, and under which epoch.
    pub lease: LeaseRef,
    /// Who gives it back.
    pub owner: WorkerId,
    /// Why, for the journal: `shutdown`, `paused`, `done`.
    pub why: String,
}

impl LeaseRelease {
    /// One for each of some leases.
    pub fn each(leases: &[LeaseRef], owner: &WorkerId, why: &str) -> Vec<Self> {
        let back =
            |lease: &LeaseRef| Self { lease: *lease, owner: owner.clone(), why: why.to_owned() };
        leases.iter().map(back).collect()
    }

    /// What the journal says of a run.
    pub fn run_entry(&self, at: Timestamp) -> JournalEntry {
        let details = json!({ "why": self.why, "epoch": self.lease.epoch.0 });
        let unit = Unit::Run(RunId(self.lease.id)).to_string();
        self.entry("run.handback", Some(unit), &details, at)
    }

    /// What it says of a partition: also which run was begun and is not to be finished.
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

    /// What it says of a group, which is no unit.
    pub fn group_entry(&self, group: &ItemGroup, at: Timestamp) -> JournalEntry {
        let details = json!({ "why": self.why, "epoch": self.lease.epoch.0 });
        let filter = json!({ "upload": group.upload, "group": group.group });
        let entry = self.entry("upload.handback", None, &details, at);
        JournalEntry { filter: Some(filter.to_string()), ..entry }
    }

    /// What it says of a sample at a stage.
    pub fn sample_entry(&self, stage: &str, at: Timestamp) -> JournalEntry {
        let details = json!({ "why": self.why, "epoch": self.lease.epoch.0 });
        let unit = sample_unit(SampleId(self.lease.id), stage);
        self.entry("sample.handback", Some(unit), &details, at)
    }

    /// What it says of the source of a pipeline run, which is no unit.
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

/// The leases of a store.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Moves the end of leases, forward only: to a time that lies before its end, a lease is not moved. A stale
    /// one is lost: its holder must stop.
    async fn renew_leases(
        &self,
        kind: Leased,
        leases: &[LeaseRef],
        until: Timestamp,
    ) -> Result<Vec<Written>>;

    /// Leases that ended at or before `now` on the store's clock, by id, after an id, a page at a
    /// time: a page of hopeless rows never hides the rest.
    async fn expired_leases(
        &self,
        kind: Leased,
        now: Timestamp,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ExpiredLease>>;

    /// The earliest end of all leases that end after `now` on the store's clock.
    async fn next_lease_end(&self, kind: Leased, now: Timestamp) -> Result<Option<Timestamp>>;

    /// Gives units back: claimable at once, counts untouched, no ledger row, one journal row each.
    async fn release_leases(
        &self,
        kind: Leased,
        releases: &[LeaseRelease],
        at: Timestamp,
    ) -> Result<Vec<Written>>;
}
