//! Reading good partitions, and nothing else (PAR-12).
//!
//! The state says what is good, and which run of it. A partition that is being reprocessed is read from
//! the run that has authority; raw data is never changed or removed, so whoever has begun to read goes on
//! undisturbed when another run takes over.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::{PartitionKey, PartitionRunId, PartitionStatus};
use redrive_store::{PartitionFilter, PartitionRecord, Result, Store};

use crate::partitions::raw::{RawError, RawLocation, RawReader, RawSink};

/// Reads good partitions.
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
}

/// A good partition, and the run that makes it so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadablePartition {
    /// Its key.
    pub key: PartitionKey,
    /// The run to read.
    pub run_id: PartitionRunId,
    /// The schema of that run.
    pub schema_version: Option<String>,
    /// How many records that run has.
    pub record_count: Option<u64>,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Why a partition could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumeError {
    /// It is not good.
    #[error("partition:{key} cannot be read: {why}")]
    NotReadable {
        /// Which.
        key: PartitionKey,
        /// What it is instead.
        why: &'static str,
    },
    /// Its raw data is not as it was sealed.
    #[error("partition:{key} cannot be read")]
    Raw {
        /// Which.
        key: PartitionKey,
        /// Why.
        #[source]
        source: RawError,
    },
    /// The store does not say what is good.
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

impl Consumer {
    /// A consumer of what a store says is good.
    pub fn new(store: Arc<dyn Store>, raw: RawSink) -> Self {
        Self { store, raw }
    }

    /// Good partitions that match, by key, after a key, a page at a time.
    pub async fn page(
        &self,
        filter: &PartitionFilter,
        after: Option<&PartitionKey>,
        limit: u32,
    ) -> Result<Vec<ReadablePartition>> {
        let status = Some(PartitionStatus::Success);
        let filter = PartitionFilter { status, ..filter.clone() };
        let page = self.store.partitions_page(&filter, after, limit).await?;
        Ok(page.into_iter().filter_map(|record| readable(record).ok()).collect())
    }

    /// A partition, if it is good.
    pub async fn find(&self, key: &PartitionKey) -> Result<ReadablePartition, ConsumeError> {
        let found = self.store.partitions_by_key(std::slice::from_ref(key)).await?.pop().flatten();
        let why = match found.map(readable) {
            Some(Ok(partition)) => return Ok(partition),
            Some(Err(why)) => why,
            None => "there is no entry",
        };
        Err(ConsumeError::NotReadable { key: key.clone(), why })
    }

    /// Reads a partition, if it is good.
    pub async fn read(&self, key: &PartitionKey) -> Result<RawReader, ConsumeError> {
        self.read_run(&self.find(key).await?).await
    }

    /// Reads the run that was found to be good.
    pub async fn read_run(&self, found: &ReadablePartition) -> Result<RawReader, ConsumeError> {
        let ReadablePartition { key, run_id, .. } = found;
        let raw = self.raw.read(key, run_id).await;
        raw.map_err(|source| ConsumeError::Raw { key: key.clone(), source })
    }

    /// Where the files of a good partition are.
    pub fn location(&self, found: &ReadablePartition) -> RawLocation {
        self.raw.location(&found.key, &found.run_id)
    }
}

/// A partition to read, or why not.
fn readable(record: PartitionRecord) -> Result<ReadablePartition, &'static str> {
    match (record.status, record.current_run_id) {
        (PartitionStatus::Success, Some(run_id)) => Ok(ReadablePartition {
            key: record.key,
            run_id,
            schema_version: record.schema_version,
            record_count: record.record_count,
            updated_at: record.updated_at,
        }),
        (PartitionStatus::Success, None) => Err("it is success, and no run of it has authority"),
        (PartitionStatus::Pending, _) => Err("it is pending"),
        (PartitionStatus::Failed, _) => Err("it is failed"),
    }
}
