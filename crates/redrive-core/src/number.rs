//! Numbers that must not be mixed up: ids, attempt numbers, lease epochs.

use std::{fmt, str::FromStr};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

id! {
    /// Names a run in the queue. 64 bits: a 32-bit id has run out in the field.
    RunId
}
id! {
    /// Names the row of a partition, for the ledger. People name partitions by their key.
    PartitionId
}
id! {
    /// Names an item to upload.
    ItemId
}
id! {
    /// Names a sample of a pipeline.
    SampleId
}
id! {
    /// Names one run of a pipeline over its source.
    PipelineRunId
}

/// The number of an execution of a unit in the ledger: 1, 2, 3 … without gaps, counted or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptNumber(pub u32);

impl fmt::Display for AttemptNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fencing token of a lease. It grows by one at every claim and at every cancellation, so a
/// write that carries an older epoch comes from a worker that no longer holds the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub i64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
