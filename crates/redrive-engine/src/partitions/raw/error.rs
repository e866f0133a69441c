//! Errors of the raw sink.

use std::{error::Error as _, io};

/// Why a raw partition could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// The run was written before, or another process is writing it.
    #[error("{place} already exists: every attempt needs a new run_id")]
    Used { place: String },
    #[error("there is no sealed raw partition at {place}")]
    NotSealed { place: String },
    /// A sealed run was changed after it was sealed.
    #[error("the raw partition at {place} is damaged: {damage}")]
    Damaged { place: String, damage: Damage },
    /// The fields that the extractor added are too long.
    #[error("the metadata of {place} has {bytes} bytes; {allowed} are allowed")]
    MetadataTooLong { place: String, bytes: usize, allowed: usize },
    /// The settings of the sink are invalid.
    #[error("{url} cannot hold raw partitions: {problem}")]
    Unusable { url: String, problem: String },
    #[error("cannot {doing} {place}")]
    File {
        doing: &'static str,
        place: String,
        #[source]
        source: io::Error,
    },
    #[cfg(feature = "objects")]
    #[error("cannot {doing} {place}")]
    Object {
        doing: &'static str,
        place: String,
        #[source]
        source: object_store::Error,
    },
}

/// How a sealed raw partition was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    #[error("the hash of its payload is not the hash in its metadata")]
    Hash,
    #[error("its payload has {found} records, its metadata says {said}")]
    Count { said: u64, found: u64 },
    #[error("its payload is missing")]
    NoPayload,
    #[error("its metadata {0}")]
    Metadata(String),
}

impl RawError {
    /// Whether the disk is full, which says nothing about the partition.
    pub fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::File { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// The error and its sources, in one line.
    pub fn in_words(&self) -> String {
        let mut words = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !words.contains(&text) {
                words = format!("{words}: {text}");
            }
            cause = error.source();
        }
        words
    }
}
