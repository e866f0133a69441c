//! What can go wrong with raw partitions.

use std::{error::Error as _, io};

/// Why a raw partition could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// The run was written before, or is being written.
    #[error("{place} is there already: a run_id is used once")]
    Used {
        /// Where.
        place: String,
    },
    /// No such run is sealed.
    #[error("there is no sealed raw partition at {place}")]
    NotSealed {
        /// Where.
        place: String,
    },
    /// A sealed run is not what was sealed.
    #[error("the raw partition at {place} is damaged: {damage}")]
    Damaged {
        /// Where.
        place: String,
        /// In which way.
        damage: Damage,
    },
    /// The extractor's own fields are too long.
    #[error("the metadata of {place} has {bytes} bytes; {allowed} are allowed")]
    MetadataTooLong {
        /// Where.
        place: String,
        /// Its length.
        bytes: usize,
        /// The longest.
        allowed: usize,
    },
    /// The settings of the sink fit nothing.
    #[error("{url} cannot hold raw partitions: {problem}")]
    Unusable {
        /// The sink.
        url: String,
        /// Why.
        problem: String,
    },
    /// A file or folder could not be used.
    #[error("cannot {doing} {place}")]
    File {
        /// What was tried.
        doing: &'static str,
        /// On what.
        place: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// An object could not be used.
    #[error("cannot {doing} {place}")]
    Object {
        /// What was tried.
        doing: &'static str,
        /// On what.
        place: String,
        /// Why not.
        #[source]
        source: object_store::Error,
    },
}

/// In which way a sealed raw partition is not what was sealed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Its bytes have another hash.
    #[error("its payload has another hash than when it was sealed")]
    Hash,
    /// It has another number of records.
    #[error("its payload has {found} records, its metadata says {said}")]
    Count {
        /// What the metadata says.
        said: u64,
        /// What there are.
        found: u64,
    },
    /// Its payload is gone.
    #[error("its payload is gone")]
    NoPayload,
    /// Its metadata is not what a seal writes.
    #[error("its metadata {0}")]
    Metadata(String),
}

impl RawError {
    /// Whether there is no room: not the fault of what was to be written.
    pub fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::File { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// The error with everything behind it, in one line.
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
