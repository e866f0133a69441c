//! Reads accepted partitions, and no others (PAR-12).
//!
//! The store says which partitions are accepted and which of their runs has authority. A partition that is
//! being reprocessed is read from the run that has authority. Raw data is never changed or removed, so a reader
//! finishes undisturbed when another run takes over.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use redrive_core::{PartitionKey, PartitionRunId, PartitionStatus, RetryForecast};
use redrive_retry::{Clock, SystemClock};
use redrive_store::{PartitionRecord, Result, Selection, Store};

use crate::partitions::{
    control::PartitionRules,
    raw::{RawError, RawLocation, RawReader, RawSink},
};

/// Reads accepted partitions.
///
/// ```
/// use redrive_engine::{Consumer, RawSink};
/// # async fn example(store: std::sync::Arc<dyn redrive_store::Store>)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let consumer = Consumer::new(store, RawSink::folder("raw"));
/// let key = "ads/1234/daily/2026-01-31".parse()?;
/// let mut rows = consumer.read(&key).await?;
/// while let Some(bytes) = rows.next().await? {
///     // JSON lines, in pieces of any size.
///     # let _ = bytes;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Consumer {
    store: Arc<dyn Store>,
    raw: RawSink,
    rules: PartitionRules,
    clock: Arc<dyn Clock>,
}

/// Why a partition cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unreadable {
    /// Nobody requested the partition.
    Missing,
    /// Requested, and not judged yet.
    Late,
    /// Rejected; the daemon retries the partition.
    Failed,
    /// Rejected, and terminal: without an operator the partition never comes.
    Gone,
    /// Accepted without a run; `redrive doctor` reports this.
    NoAuthority,
}

impl Unreadable {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Late => "late",
            Self::Failed => "failed",
            Self::Gone => "gone",
            Self::NoAuthority => "no_authority",
        }
    }

    /// Why a partition that is not accepted cannot be read.
    pub(crate) fn of(partition: &PartitionRecord, rules: &PartitionRules, now: Timestamp) -> Self {
        match (partition.status, rules.forecast(partition, now)) {
            (PartitionStatus::Success, _) => Self::NoAuthority,
            (PartitionStatus::Pending, _) => Self::Late,
            (PartitionStatus::Failed, Some(RetryForecast::Terminal { .. })) => Self::Gone,
            (PartitionStatus::Failed, _) => Self::Failed,
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing: the partition has no entry",
            Self::Late => "late: the partition is pending",
            Self::Failed => "failed: the partition was rejected and is retried later",
            Self::Gone => "gone: the partition is terminal and is not retried",
            Self::NoAuthority => {
                "the partition is success, but none of its runs has authority; run `redrive doctor`"
            }
        })
    }
}

/// An accepted partition, and its run that has authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadablePartition {
    pub key: PartitionKey,
    pub run_id: PartitionRunId,
    pub schema_version: Option<String>,
    pub record_count: Option<u64>,
    pub updated_at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumeError {
    /// The partition has no entry or is not accepted.
    #[error("cannot read partition:{key}: {why}")]
    NotReadable { key: PartitionKey, why: Unreadable },
    /// The raw data is missing or not as it was sealed.
    #[error("cannot read the raw data of partition:{key}")]
    Raw {
        key: PartitionKey,
        #[source]
        source: RawError,
    },
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

impl Consumer {
    pub fn new(store: Arc<dyn Store>, raw: RawSink) -> Self {
        Self { store, raw, rules: PartitionRules::default(), clock: Arc::new(SystemClock) }
    }

    /// The policies that say which failed partitions are gone; without them, only those that an operator marked are.
    pub fn with_rules(self, rules: PartitionRules) -> Self {
        Self { rules, ..self }
    }

    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// A page of accepted partitions that match, ordered by key and greater than `after`. Fewer than `limit` only at the
    /// end.
    pub async fn page(
        &self,
        filter: &Selection,
        after: Option<&PartitionKey>,
        limit: u32,
    ) -> Result<Vec<ReadablePartition>> {
        let status = Some(PartitionStatus::Success);
        let filter = Selection { state: status.map(Into::into), ..filter.clone() };
        let (mut found, mut after) = (Vec::new(), after.cloned());
        loop {
            let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(limit));
            let page = self.scan(&filter, after.as_ref(), left).await?;
            after = page.last().map(|(key, _)| key.clone());
            let is_last = page.len() < left as usize;
            found.extend(page.into_iter().filter_map(|(_, found)| found.ok()));
            if is_last || found.len() >= limit as usize {
                return Ok(found);
            }
        }
    }

    /// A page of all partitions with an entry that match, ordered by key and greater than `after`.
    pub async fn scan(
        &self,
        filter: &Selection,
        after: Option<&PartitionKey>,
        limit: u32,
    ) -> Result<Vec<(PartitionKey, Result<ReadablePartition, Unreadable>)>> {
        let page = self.store.partitions_page(filter, after, limit.into()).await?;
        Ok(page.into_iter().map(|record| (record.key.clone(), self.readable(record))).collect())
    }

    /// Finds a partition; an error if the partition is not accepted.
    pub async fn find(&self, key: &PartitionKey) -> Result<ReadablePartition, ConsumeError> {
        let found = self.store.partitions_by_key(std::slice::from_ref(key)).await?.pop().flatten();
        let found = found.map_or(Err(Unreadable::Missing), |record| self.readable(record));
        found.map_err(|why| ConsumeError::NotReadable { key: key.clone(), why })
    }

    /// Reads the rows of a partition; an error if the partition is not accepted.
    pub async fn read(&self, key: &PartitionKey) -> Result<RawReader, ConsumeError> {
        self.read_run(&self.find(key).await?).await
    }

    /// Reads the run that was found, even if another run has authority by now.
    pub async fn read_run(&self, found: &ReadablePartition) -> Result<RawReader, ConsumeError> {
        let ReadablePartition { key, run_id, .. } = found;
        let raw = self.raw.read(key, run_id).await;
        raw.map_err(|source| ConsumeError::Raw { key: key.clone(), source })
    }

    pub fn location(&self, found: &ReadablePartition) -> RawLocation {
        self.raw.location(&found.key, &found.run_id)
    }

    fn readable(&self, record: PartitionRecord) -> Result<ReadablePartition, Unreadable> {
        match (record.status, &record.current_run_id) {
            (PartitionStatus::Success, Some(run_id)) => Ok(ReadablePartition {
                run_id: run_id.clone(),
                key: record.key,
                schema_version: record.schema_version,
                record_count: record.record_count,
                updated_at: record.updated_at,
            }),
            _ => Err(Unreadable::of(&record, &self.rules, self.clock.now())),
        }
    }
}
