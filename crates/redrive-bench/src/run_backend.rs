//! The operations on runs that are compared: Redrive's store and the bare loops implement them.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use crate::error::BenchError;

/// One connection that inserts, claims and finishes runs in batches.
#[async_trait]
pub(crate) trait RunBackend: Send {
    async fn insert(&mut self, batch: usize) -> Result<(), BenchError>;

    /// Inserts in the fastest way the database has; the ids of the new runs are not read.
    async fn load(&mut self, batch: usize) -> Result<(), BenchError> {
        self.insert(batch).await
    }

    /// Claims up to `batch` runs and holds them; returns their number.
    async fn claim(&mut self, batch: usize) -> Result<usize, BenchError>;

    /// Finishes up to `batch` of the held runs, with a ledger row each; returns their number.
    async fn finish(&mut self, batch: usize) -> Result<usize, BenchError>;
}

/// One backend per connection.
pub(crate) type RunBackends = Vec<Box<dyn RunBackend>>;

pub(crate) const PAYLOAD: &str =
    r#"{"document":"s3://bucket/2026/03/01/part-00017.json","page":17}"#;

/// The worker of the bare loops. As long as the name of a real worker, so that rows are as wide.
pub(crate) const WORKER: &str = "w-00000000000bare1";

/// When every run is submitted, started and ended. Not near 1970, which SQLite would keep in fewer bytes.
pub(crate) fn at(second: i64) -> Timestamp {
    const START: Timestamp = Timestamp::constant(1_577_836_800, 0);
    START + SignedDuration::from_secs(second)
}
