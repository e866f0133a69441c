//! Who is measured: anything that can insert, claim and finish runs in batches.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use crate::exit::{Exit, Failure};

/// One connection's worth of work.
#[async_trait]
pub(crate) trait Contender: Send {
    /// Inserts so many runs.
    async fn insert(&mut self, batch: usize) -> Result<(), Failure>;

    /// Inserts so many runs by the fastest way there is, if nothing need be known of them afterwards.
    async fn load(&mut self, batch: usize) -> Result<(), Failure> {
        self.insert(batch).await
    }

    /// Claims up to so many and holds them. Says how many there were.
    async fn claim(&mut self, batch: usize) -> Result<usize, Failure>;

    /// Finishes up to so many of the held ones, with a ledger row each. Says how many there were.
    async fn finish(&mut self, batch: usize) -> Result<usize, Failure>;
}

/// A side of a comparison: one contender per connection.
pub(crate) type Side = Vec<Box<dyn Contender>>;

/// What every run carries.
pub(crate) const PAYLOAD: &str =
    r#"{"document":"s3://bucket/2026/03/01/part-00017.json","page":17}"#;

/// Who handles the runs of a bare loop: as long as the name of a worker, so that rows are as wide.
pub(crate) const WORKER: &str = "w-00000000000bare1";

/// When every run is submitted, started and ended. Not near 1970, which SQLite would keep in fewer bytes.
pub(crate) fn at(second: i64) -> Timestamp {
    const BEGIN: Timestamp = Timestamp::constant(1_577_836_800, 0);
    BEGIN + SignedDuration::from_secs(second)
}

/// A measurement that went wrong.
pub(crate) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new(Exit::Error, "the measurement broke off").because(error)
}
