//! Partitions through the gate and the weather.

use async_trait::async_trait;
use redrive_core::{DateRange, LogicalDate, PartitionId, PartitionKey, PartitionStatus};
use redrive_store::{
    ClaimedPartition, LeaseRef, NamedPartition, Outlook, PartitionChange, PartitionClaim,
    PartitionCount, PartitionFilter, PartitionFinish, PartitionOrder, PartitionRecord,
    PartitionSeries, PartitionWish, Partitions, Result, Written,
};

use super::faulty_store::FaultyStore;

#[async_trait]
impl Partitions for FaultyStore {
    async fn claim_partitions(&self, claim: &PartitionClaim) -> Result<Vec<ClaimedPartition>> {
        self.call("claim_partitions", self.inner.claim_partitions(claim)).await
    }

    async fn claimed_partitions(&self, leases: &[LeaseRef]) -> Result<Vec<ClaimedPartition>> {
        self.call("claimed_partitions", self.inner.claimed_partitions(leases)).await
    }

    async fn finish_partitions(&self, finishes: &[PartitionFinish]) -> Result<Vec<Written>> {
        self.call("finish_partitions", self.inner.finish_partitions(finishes)).await
    }

    async fn change_partitions(
        &self,
        wish: &PartitionWish,
        named: &[NamedPartition],
        order: &PartitionOrder,
    ) -> Result<Vec<PartitionChange>> {
        self.call("change_partitions", self.inner.change_partitions(wish, named, order)).await
    }

    async fn partitions_by_key(
        &self,
        keys: &[PartitionKey],
    ) -> Result<Vec<Option<PartitionRecord>>> {
        self.call("partitions_by_key", self.inner.partitions_by_key(keys)).await
    }

    async fn partitions_page(
        &self,
        filter: &PartitionFilter,
        after: Option<&PartitionKey>,
        limit: u32,
    ) -> Result<Vec<PartitionRecord>> {
        self.call("partitions_page", self.inner.partitions_page(filter, after, limit)).await
    }

    async fn partitions_by_id(
        &self,
        after: PartitionId,
        limit: u32,
    ) -> Result<Vec<PartitionRecord>> {
        self.call("partitions_by_id", self.inner.partitions_by_id(after, limit)).await
    }

    async fn partition_dates(
        &self,
        series: &PartitionSeries,
        range: DateRange,
    ) -> Result<Vec<(LogicalDate, PartitionStatus)>> {
        self.call("partition_dates", self.inner.partition_dates(series, range)).await
    }

    async fn partition_counts(&self) -> Result<Vec<PartitionCount>> {
        self.call("partition_counts", self.inner.partition_counts()).await
    }

    async fn partition_outlook(&self, source: &str) -> Result<Outlook> {
        self.call("partition_outlook", self.inner.partition_outlook(source)).await
    }
}
