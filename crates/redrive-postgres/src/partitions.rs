//! Partitions.

use std::collections::HashMap;

use async_trait::async_trait;
use redrive_core::{
    DateRange, LogicalDate, PartitionId, PartitionKey, PartitionRunId, PartitionStatus,
};
use redrive_store::{
    AuditContext, Backlog, ClaimedPartition, KeyPlace, LeaseRef, NamedPartition, PartitionAction,
    PartitionChange, PartitionClaim, PartitionCount, PartitionFilter, PartitionFinish,
    PartitionRecord, PartitionSeries, Partitions, Result, Written,
};
use tokio_postgres::types::ToSql;

use crate::{
    PostgresStore,
    backfill::backfill,
    batch::each,
    columns::{Day, Micros, read_rows},
    connection::WHOLE_TABLES,
    partition_columns::{KeyColumns, read_partition},
    partition_writes::{change, finish},
    queries,
    session::{Command, Session},
};

#[async_trait]
impl Partitions for PostgresStore {
    async fn claim_partitions(&self, claim: &PartitionClaim) -> Result<Vec<ClaimedPartition>> {
        if claim.run_ids.is_empty() {
            return Ok(Vec::new());
        }
        let claimed = take(&mut self.session(CLAIMING).await?, claim).await?;
        redrive_store::failpoint!("postgres.claim_partitions.committed");
        Ok(claimed)
    }

    async fn claimed_partitions(&self, leases: &[LeaseRef]) -> Result<Vec<ClaimedPartition>> {
        const DOING: &str = "reading what is held";
        let ids = each(leases, |lease| lease.id);
        let rows = self.session(DOING).await?.query(queries::PARTITIONS_AT_WORK, &[&ids]).await?;
        Ok(ClaimedPartition::under(leases, read_rows(&rows, DOING, read_partition)?))
    }

    async fn finish_partitions(&self, finishes: &[PartitionFinish]) -> Result<Vec<Written>> {
        let written = finish(self, finishes).await?;
        redrive_store::failpoint!("postgres.finish_partitions.committed");
        Ok(written)
    }

    async fn change_partitions(
        &self,
        action: &PartitionAction,
        named: &[NamedPartition],
        order: &AuditContext,
    ) -> Result<Vec<PartitionChange>> {
        let order = order.cleaned();
        let changes = if matches!(action, PartitionAction::Backfill { force_pending: false, .. }) {
            backfill(self, *action, named, &order).await?
        } else {
            change(self, *action, named, &order).await?
        };
        redrive_store::failpoint!("postgres.change_partitions.committed");
        let done = |change: &PartitionChange| matches!(change, PartitionChange::Done(_));
        self.tell_if(changes.iter().any(done)).await;
        Ok(changes)
    }

    async fn partitions_by_key(
        &self,
        keys: &[PartitionKey],
    ) -> Result<Vec<Option<PartitionRecord>>> {
        const DOING: &str = "reading partitions";
        let columns = KeyColumns::of(&each(keys, |key| key));
        let mut session = self.session(DOING).await?;
        let rows = session.query(queries::PARTITIONS_BY_KEY, &columns.values()).await?;
        let records = read_rows(&rows, DOING, read_partition)?;
        let found: HashMap<PartitionKey, PartitionRecord> =
            records.into_iter().map(|record| (record.key.clone(), record)).collect();
        Ok(each(keys, |key| found.get(key).cloned()))
    }

    async fn partitions_page(
        &self,
        filter: &PartitionFilter,
        after: Option<&PartitionKey>,
        limit: u32,
    ) -> Result<Vec<PartitionRecord>> {
        const DOING: &str = "listing partitions";
        let (start, end) = filter.stretch(after);
        let (start_day, end_day) = (day(&start), day(&end));
        let (since, until) = (filter.since.map(Day::On), filter.until.map(Day::On));
        let (limit, status) = (i64::from(limit), filter.status.map(PartitionStatus::name));
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![
            &start.source,
            &start.customer_id,
            &start.query_name,
            &start_day,
            &end.source,
            &end.customer_id,
            &end.query_name,
            &end_day,
            &filter.source,
            &filter.customer_id,
            &filter.query_name,
            &since,
            &until,
            &limit,
        ];
        let sql = if filter.status == Some(PartitionStatus::Failed) {
            queries::FAILED_PARTITIONS_PAGE
        } else {
            values.push(&status);
            queries::PARTITIONS_PAGE
        };
        let rows = self.session(DOING).await?.query(sql, &values).await?;
        read_rows(&rows, DOING, read_partition)
    }

    async fn partitions_by_id(
        &self,
        after: PartitionId,
        limit: u32,
    ) -> Result<Vec<PartitionRecord>> {
        const DOING: &str = "reading partitions";
        let mut session = self.session(DOING).await?;
        let values: [&(dyn ToSql + Sync); 2] = [&after.0, &i64::from(limit)];
        let rows = session.query(queries::PARTITIONS_BY_ID, &values).await?;
        read_rows(&rows, DOING, read_partition)
    }

    async fn partition_dates(
        &self,
        series: &PartitionSeries,
        range: DateRange,
    ) -> Result<Vec<(LogicalDate, PartitionStatus)>> {
        const DOING: &str = "reading the days of partitions";
        let PartitionSeries { source, customer_id, query_name } = series;
        let (since, until) = (Day::On(range.since()), Day::On(range.until()));
        let values: [&(dyn ToSql + Sync); 5] = [source, customer_id, query_name, &since, &until];
        let rows = self.session(DOING).await?.query(queries::PARTITION_DATES, &values).await?;
        read_rows(&rows, DOING, |row| {
            Ok((row.date()?, row.named("status", PartitionStatus::from_name)?))
        })
    }

    async fn partition_counts(&self) -> Result<Vec<PartitionCount>> {
        const DOING: &str = "counting partitions";
        let count = Command { sql: queries::PARTITION_COUNTS, values: &[] };
        let mut session = self.session(DOING).await?;
        let answers = session.transaction_begun_by(WHOLE_TABLES, &[count]).await?;
        let rows = answers.last().map(Vec::as_slice).unwrap_or_default();
        let counts = read_rows(rows, DOING, |row| {
            Ok(PartitionCount {
                source: row.get()?,
                status: row.named("status", PartitionStatus::from_name)?,
                partitions: row.count("count")?,
            })
        })?;
        Ok(PartitionCount::in_order(counts))
    }

    async fn partition_backlog(&self, source: &str) -> Result<Backlog> {
        const DOING: &str = "looking at what a source has to do";
        let rows = self.session(DOING).await?.query(queries::PARTITION_OUTLOOK, &[&source]).await?;
        let outlooks = read_rows(&rows, DOING, |row| {
            Ok(Backlog { ready: row.get()?, held: row.get()?, next_due: None })
        })?;
        Ok(outlooks.into_iter().next().unwrap_or_default())
    }
}

const CLAIMING: &str = "claiming partitions";

/// Locks what is to be taken, and takes it.
async fn take(session: &mut Session, claim: &PartitionClaim) -> Result<Vec<ClaimedPartition>> {
    let limit = i64::from(claim.limit());
    let backfill = i64::from(claim.backfill).min(limit);
    let values: [&(dyn ToSql + Sync); 3] = [&claim.source, &limit, &backfill];
    let rows = session.begin(queries::CLAIMABLE_PARTITIONS, &values).await?;
    redrive_store::failpoint!("postgres.claim_partitions.locked");
    let ids: Vec<i64> = read_rows(&rows, CLAIMING, |row| row.get())?;
    let runs: Vec<&str> =
        claim.run_ids.iter().map(PartitionRunId::as_str).take(ids.len()).collect();
    let update = Command {
        sql: queries::CLAIM_PARTITIONS,
        values: &[&ids, &runs, &claim.owner.0, &Micros(claim.lease_until)],
    };
    let read = Command { sql: queries::PARTITIONS_AT_WORK, values: &[&ids] };
    let commands: &[Command<'_>] = if ids.is_empty() { &[] } else { &[update, read] };
    let answers = session.commit_all(commands).await?;
    let rows = answers.last().map(Vec::as_slice).unwrap_or_default();
    let records = read_rows(rows, CLAIMING, read_partition)?;
    Ok(ClaimedPartition::in_order(records.into_iter().filter_map(ClaimedPartition::of)))
}

fn day(place: &KeyPlace) -> Day {
    place.logical_date.map_or(Day::BeforeAll, Day::On)
}
