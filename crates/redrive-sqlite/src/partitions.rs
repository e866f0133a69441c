//! Implements [`Partitions`].

use async_trait::async_trait;
use redrive_core::{DateRange, LogicalDate, PartitionId, PartitionKey, PartitionStatus};
use redrive_store::{
    AuditContext, Backlog, ClaimedPartition, KeyPlace, LeaseRef, NamedPartition, PartitionAction,
    PartitionChange, PartitionClaim, PartitionCount, PartitionFinish, PartitionRecord,
    PartitionSeries, Partitions, ReadColumn, Result, Selection, SelectionSql, Written,
};
use rusqlite::{Connection, params, types::Value};

use crate::{
    SqliteStore,
    columns::{micros, read_records, read_rows},
    error::Doing,
    partition_columns::{at_work, by_key, written_date},
    partition_writes::{change, finish},
    queries,
    selected::SelectQuery,
    sums::Sums,
};

#[async_trait]
impl Partitions for SqliteStore {
    async fn claim_partitions(&self, claim: &PartitionClaim) -> Result<Vec<ClaimedPartition>> {
        if claim.run_ids.is_empty() {
            return Ok(Vec::new());
        }
        let claim = claim.clone();
        let claimed = self.write(move |connection| take(connection, &claim)).await?;
        redrive_store::failpoint!("sqlite.claim_partitions.committed");
        Ok(claimed)
    }

    async fn claimed_partitions(&self, leases: &[LeaseRef]) -> Result<Vec<ClaimedPartition>> {
        let leases = leases.to_vec();
        self.read(move |connection| {
            let ids: Vec<i64> = leases.iter().map(|lease| lease.id).collect();
            let records = at_work(connection, "reading what is held", &ids)?;
            Ok(ClaimedPartition::under(&leases, records))
        })
        .await
    }

    async fn finish_partitions(&self, finishes: &[PartitionFinish]) -> Result<Vec<Written>> {
        let finishes = finishes.to_vec();
        let written = self
            .write(move |connection| {
                finishes.iter().map(|verdict| finish(connection, verdict)).collect()
            })
            .await?;
        redrive_store::failpoint!("sqlite.finish_partitions.committed");
        Ok(written)
    }

    async fn change_partitions(
        &self,
        action: &PartitionAction,
        named: &[NamedPartition],
        order: &AuditContext,
    ) -> Result<Vec<PartitionChange>> {
        let (action, named, order) = (*action, named.to_vec(), order.cleaned());
        let changes =
            self.write(move |connection| change(connection, action, &named, &order, None)).await?;
        redrive_store::failpoint!("sqlite.change_partitions.committed");
        let done = |change: &PartitionChange| matches!(change, PartitionChange::Done(_));
        self.wakes.wake_if(changes.iter().any(done));
        Ok(changes)
    }

    async fn partitions_by_key(
        &self,
        keys: &[PartitionKey],
    ) -> Result<Vec<Option<PartitionRecord>>> {
        let keys = keys.to_vec();
        self.read(move |connection| keys.iter().map(|key| by_key(connection, key)).collect()).await
    }

    async fn partitions_page(
        &self,
        filter: &Selection,
        after: Option<&PartitionKey>,
        limit: u32,
    ) -> Result<Vec<PartitionRecord>> {
        let (start, end) = filter.stretch(after);
        let position = |place: KeyPlace| {
            let KeyPlace { source, customer_id, query_name, logical_date } = place;
            let date = logical_date.map(written_date).unwrap_or_default();
            [source, customer_id, query_name, date].map(Value::from)
        };
        let own = position(start).into_iter().chain(position(end)).chain([limit.into()]).collect();
        let (units, sql) = (SelectionSql::PARTITIONS, queries::PARTITIONS_PAGE);
        self.select("listing partitions", SelectQuery { units, sql, own }, filter).await
    }

    async fn partitions_by_id(
        &self,
        after: PartitionId,
        limit: u32,
    ) -> Result<Vec<PartitionRecord>> {
        self.read(move |connection| {
            const DOING: &str = "reading partitions";
            let params = params![after.0, limit];
            read_records(connection, DOING, queries::PARTITIONS_BY_ID, params)
        })
        .await
    }

    async fn partition_dates(
        &self,
        series: &PartitionSeries,
        range: DateRange,
    ) -> Result<Vec<(LogicalDate, PartitionStatus)>> {
        let PartitionSeries { source, customer_id, query_name } = series.clone();
        self.read(move |connection| {
            const DOING: &str = "reading the days of partitions";
            let (since, until) = (written_date(range.since()), written_date(range.until()));
            let params = params![source, customer_id, query_name, since, until];
            read_records(connection, DOING, queries::PARTITION_DATES, params)
        })
        .await
    }

    async fn partition_counts(&self) -> Result<Vec<PartitionCount>> {
        self.read(|connection| {
            const DOING: &str = "counting partitions";
            let sums = Sums::read(connection, DOING, queries::PARTITION_COUNTS, |sum, _| {
                *sum += 1;
                Ok(())
            })?;
            let sums = sums.named(DOING, PartitionStatus::from_name)?.into_iter();
            let counts = sums
                .map(|(source, status, partitions)| PartitionCount { source, status, partitions })
                .collect();
            Ok(PartitionCount::in_order(counts))
        })
        .await
    }

    async fn partition_backlog(&self, source: &str) -> Result<Backlog> {
        let source = source.to_owned();
        self.read(move |connection| {
            const DOING: &str = "looking at what a source has to do";
            let mut rows = read_records(connection, DOING, queries::PARTITION_BACKLOG, [&source])?;
            Ok(rows.pop().unwrap_or_default())
        })
        .await
    }
}

fn take(connection: &Connection, claim: &PartitionClaim) -> Result<Vec<ClaimedPartition>> {
    const DOING: &str = "claiming partitions";
    let params = params![claim.source, claim.run_ids.len(), claim.backfill.min(claim.limit())];
    let ids: Vec<i64> =
        read_rows(connection, DOING, queries::CLAIMABLE_PARTITIONS, params, |row| row.get())?;
    let mut update = connection.prepare_cached(queries::CLAIM_PARTITIONS).doing(DOING)?;
    for (id, run_id) in ids.iter().zip(&claim.run_ids) {
        let until = micros(claim.lease_until);
        update.execute(params![id, claim.owner.0, until, run_id.as_str()]).doing(DOING)?;
        redrive_store::failpoint!("sqlite.claim_partitions.row");
    }
    let claimed = at_work(connection, DOING, &ids)?.into_iter().filter_map(ClaimedPartition::of);
    Ok(ClaimedPartition::in_order(claimed))
}
