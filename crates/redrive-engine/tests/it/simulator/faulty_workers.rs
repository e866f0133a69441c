//! Reports of processes through the way to the store.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    AttemptCount, AttemptCountFilter, PeriodCount, Presence, Result, WorkerRecord, Workers,
};

use super::faulty_store::FaultyStore;

#[async_trait]
impl Workers for FaultyStore {
    async fn report(
        &self,
        presence: &Presence,
        counts: &[AttemptCount],
        at: Timestamp,
    ) -> Result<()> {
        // Without weather: no unit depends on a report, so its trouble must not excuse a unit that is lost.
        self.gate.pass().await;
        self.inner.report(presence, counts, at).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        self.call("workers", self.inner.workers()).await
    }

    async fn attempt_counts(&self, filter: &AttemptCountFilter) -> Result<Vec<PeriodCount>> {
        self.call("attempt_counts", self.inner.attempt_counts(filter)).await
    }
}
