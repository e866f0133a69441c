//! Newtypes for ids, attempt numbers and lease epochs, so that they cannot be mixed up.

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
    /// Identifies a run. 64 bits, because 32-bit ids have overflowed in production systems.
    RunId
}
id! {
    /// Identifies the row of a partition in the ledger. Users name partitions by
    /// [`PartitionKey`](crate::PartitionKey).
    PartitionId
}
id! {
    /// Identifies an upload item.
    ItemId
}
id! {
    /// Identifies a sample of a pipeline.
    SampleId
}
id! {
    /// Identifies one run of a pipeline over its source.
    PipelineRunId
}
id! {
    /// Identifies a plan for a bulk action.
    PlanId
}

/// The number of an attempt in the ledger: 1, 2, 3 … without gaps, counted or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptNumber(pub u32);

impl fmt::Display for AttemptNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fencing token of a lease. The epoch grows by one with every claim and every cancellation, so
/// a write with an older epoch comes from a worker that no longer holds the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub i64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
