//! Partitions through the gate and the weather.

use async_trait::async_trait;
use redrive_core::{Cause, DateRange, LogicalDate, PartitionId, PartitionKey, PartitionStatus};
use redrive_store::{
    AuditContext, Backlog, ClaimedPartition, LeaseRef, NamedPartition, PageLimit, PartitionAction,
    PartitionChange, PartitionClaim, PartitionCount, PartitionFinish, PartitionRecord,
    PartitionSeries, PartitionVerdict, Partitions, Result, Selection, Written,
};

use super::{
    faulty_store::FaultyStore,
    log::{LoggedVerdict, What},
};

#[async_trait]
impl Partitions for FaultyStore {
    async fn claim_partitions(&self, claim: &PartitionClaim) -> Result<Vec<ClaimedPartition>> {
        self.call("claim_partitions", async {
            let claimed = match &self.mutant {
                Some(mutant) => mutant.claim_partitions(&*self.inner, claim).await?,
                None => self.inner.claim_partitions(claim).await?,
            };
            for one in &claimed {
                self.note(What::Took {
                    key: one.key.clone(),
                    lease: one.lease,
                    run_id: one.run_id.clone(),
                    attempt: one.attempt.0,
                });
            }
            Ok(claimed)
        })
        .await
    }

    async fn claimed_partitions(&self, leases: &[LeaseRef]) -> Result<Vec<ClaimedPartition>> {
        self.call("claimed_partitions", self.inner.claimed_partitions(leases)).await
    }

    async fn finish_partitions(&self, finishes: &[PartitionFinish]) -> Result<Vec<Written>> {
        self.call("finish_partitions", async {
            let written = match &self.mutant {
                Some(mutant) => mutant.finish_partitions(&*self.inner, finishes).await?,
                None => self.inner.finish_partitions(finishes).await?,
            };
            for (finish, written) in finishes.iter().zip(&written) {
                let (key, verdict) = (finish.key.clone(), verdict_of(finish));
                self.note(What::Judged { key, verdict, written: *written });
            }
            Ok(written)
        })
        .await
    }

    async fn change_partitions(
        &self,
        action: &PartitionAction,
        named: &[NamedPartition],
        order: &AuditContext,
    ) -> Result<Vec<PartitionChange>> {
        self.call("change_partitions", async {
            let changes = match &self.mutant {
                Some(mutant) => {
                    mutant.change_partitions(&*self.inner, action, named, order).await?
                }
                None => self.inner.change_partitions(action, named, order).await?,
            };
            for (named, change) in named.iter().zip(&changes) {
                let (key, at) = (named.key.clone(), order.by.at);
                self.note(What::Wished { action: *action, key, at, change: *change });
            }
            Ok(changes)
        })
        .await
    }

    async fn partitions_by_key(
        &self,
        keys: &[PartitionKey],
    ) -> Result<Vec<Option<PartitionRecord>>> {
        self.call("partitions_by_key", self.inner.partitions_by_key(keys)).await
    }

    async fn partitions_page(
        &self,
        filter: &Selection,
        after: Option<&PartitionKey>,
        limit: PageLimit,
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

    async fn partition_backlog(&self, source: &str) -> Result<Backlog> {
        self.call("partition_outlook", self.inner.partition_backlog(source)).await
    }
}

fn verdict_of(finish: &PartitionFinish) -> LoggedVerdict {
    let (good, lost) = match &finish.verdict {
        PartitionVerdict::Accepted { .. } => (true, false),
        PartitionVerdict::Rejected { failure } => (false, failure.cause() == Cause::LostWorker),
    };
    LoggedVerdict {
        lease: finish.lease,
        run_id: finish.run_id.clone(),
        good,
        lost,
        started_at: finish.started_at,
        ended_at: finish.ended_at,
    }
}
