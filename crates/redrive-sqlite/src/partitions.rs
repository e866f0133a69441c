//! Implements [`Partitions`].

use async_trait::async_trait;
use redrive_core::{DateRange, LogicalDate, PartitionId, PartitionKey, PartitionStatus};
use redrive_store::{
    AuditContext, Backlog, ClaimedPartition, KeyPlace, LeaseRef, LetThrough, NamedPartition,
    PageLimit, PartitionAction, PartitionChange, PartitionClaim, PartitionCount, PartitionFinish,
    PartitionRecord, PartitionSeries, Partitions, ReadColumn, Result, Selection, SelectionSql,
    UnitKind, Written,
};
use rusqlite::{Connection, params, types::Value};

use crate::{
    SqliteLeaseClock, SqliteStore,
    columns::{json_list, micros, read_records, read_rows},
    error::Doing,
    gates::GateRequest,
    partition_columns::{at_work, by_key, written_date},
    partition_writes::{change, finish_all},
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
        let (claim, clock) = (claim.clone(), self.clock.clone());
        let claimed = self.write(move |connection| take(connection, &claim, &clock)).await?;
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
        let (written, wakes) =
            self.write(move |connection| finish_all(connection, &finishes)).await?;
        redrive_store::failpoint!("sqlite.finish_partitions.committed");
        self.wakes.wake_if(wakes);
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
        limit: PageLimit,
    ) -> Result<Vec<PartitionRecord>> {
        let (start, end) = filter.stretch(after, limit.order);
        let position = |place: KeyPlace| {
            let KeyPlace { source, customer_id, query_name, logical_date } = place;
            let date = logical_date.map(written_date).unwrap_or_default();
            [source, customer_id, query_name, date].map(Value::from)
        };
        let own =
            position(start).into_iter().chain(position(end)).chain([limit.rows.into()]).collect();
        let units = SelectionSql::PARTITIONS.in_order(limit.order);
        let sql = queries::PARTITIONS_PAGE;
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

fn take(
    connection: &Connection,
    claim: &PartitionClaim,
    clock: &SqliteLeaseClock,
) -> Result<Vec<ClaimedPartition>> {
    let PartitionClaim { gates, owner, now, source, .. } = claim;
    let (kind, limit) = (UnitKind::Partition, claim.limit());
    let asked = GateRequest { gates, kind, owner, limit, now: *now };
    let present =
        || read_rows(connection, CLAIMING, queries::PARTITION_CUSTOMERS, [source], |row| row.get());
    let Some(gated) = asked.look(connection, clock(), present, |_| true)? else {
        let params = params![source, limit, claim.backfill.quota(limit)];
        let ids = read_rows(connection, CLAIMING, queries::CLAIMABLE_PARTITIONS, params, |row| {
            row.get()
        })?;
        return take_chosen(connection, claim, &ids);
    };
    let customers: Vec<&str> = gated.most.iter().map(|(key, _)| key.as_str()).collect();
    let own = params![source, json_list(&customers), gated.limit];
    let candidates = read_records(connection, CLAIMING, queries::CLAIMABLE_PARTITIONS_OF, own)?;
    let ids = claim.choose(candidates, gated.limit, &gated.most);
    let mut claimed = take_chosen(connection, claim, &ids)?;
    let units: Vec<LetThrough<'_>> = claimed.iter().map(ClaimedPartition::let_through).collect();
    let passes = asked.let_through(connection, clock(), gated, &units)?;
    for (partition, pass) in claimed.iter_mut().zip(passes) {
        partition.pass = pass;
    }
    Ok(claimed)
}

const CLAIMING: &str = "claiming partitions";

fn take_chosen(
    connection: &Connection,
    claim: &PartitionClaim,
    ids: &[i64],
) -> Result<Vec<ClaimedPartition>> {
    let mut update = connection.prepare_cached(queries::CLAIM_PARTITIONS).doing(CLAIMING)?;
    for (id, run_id) in ids.iter().zip(&claim.run_ids) {
        let until = micros(claim.lease_until);
        update.execute(params![id, claim.owner.0, until, run_id.as_str()]).doing(CLAIMING)?;
        redrive_store::failpoint!("sqlite.claim_partitions.row");
    }
    let claimed = at_work(connection, CLAIMING, ids)?.into_iter().filter_map(ClaimedPartition::of);
    Ok(ClaimedPartition::in_order(claimed))
}
