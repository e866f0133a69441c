//! Partitions: claim, finish, change, read.

use std::collections::HashMap;

use crate::{
    PostgresStore,
    backfill::backfill,
    batch::each,
    bound_query::{bind, columns},
    columns::{Day, Micros, read_records, read_rows},
    connection::BEGIN_FULL_SCAN,
    gates::GateRequest,
    partition_columns::KeyColumns,
    partition_writes::{change, finish},
    queries,
    session::Session,
};
use async_trait::async_trait;
use redrive_core::{
    DateRange, LogicalDate, PartitionId, PartitionKey, PartitionRunId, PartitionStatus,
};
use redrive_store::{
    AuditContext, Backlog, ClaimedPartition, GateRecord, KeyPlace, LeaseRef, NamedPartition,
    PageLimit, PartitionAction, PartitionChange, PartitionClaim, PartitionCount, PartitionFinish,
    PartitionRecord, PartitionSeries, Partitions, ReadColumn, Result, RowReader, Selection,
    SelectionSql, UnitKind, Written,
};

#[async_trait]
impl Partitions for PostgresStore {
    async fn claim_partitions(&self, claim: &PartitionClaim) -> Result<Vec<ClaimedPartition>> {
        if claim.run_ids.is_empty() {
            return Ok(Vec::new());
        }
        let claimed = claim_work(self, &mut self.session(CLAIMING).await?, claim).await?;
        redrive_store::failpoint!("postgres.claim_partitions.committed");
        Ok(claimed)
    }

    async fn claimed_partitions(&self, leases: &[LeaseRef]) -> Result<Vec<ClaimedPartition>> {
        const DOING: &str = "reading claimed partitions";
        let ids = each(leases, |lease| lease.id);
        let read = bind!(queries::PARTITIONS_AT_WORK, id => &ids);
        let rows = self.session(DOING).await?.query(read).await?;
        Ok(ClaimedPartition::under(leases, read_records(&rows, DOING)?))
    }

    async fn finish_partitions(&self, finishes: &[PartitionFinish]) -> Result<Vec<Written>> {
        let (written, wakes) = finish(self, finishes).await?;
        redrive_store::failpoint!("postgres.finish_partitions.committed");
        self.notify_if(wakes).await;
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
        self.notify_if(changes.iter().any(done)).await;
        Ok(changes)
    }

    async fn partitions_by_key(
        &self,
        keys: &[PartitionKey],
    ) -> Result<Vec<Option<PartitionRecord>>> {
        const DOING: &str = "reading partitions";
        let columns = KeyColumns::of(&each(keys, |key| key));
        let mut session = self.session(DOING).await?;
        let rows = session.query(bind!(queries::PARTITIONS_BY_KEY, ..KeyColumns(columns))).await?;
        let records: Vec<PartitionRecord> = read_records(&rows, DOING)?;
        let found: HashMap<PartitionKey, PartitionRecord> =
            records.into_iter().map(|record| (record.key.clone(), record)).collect();
        Ok(each(keys, |key| found.get(key).cloned()))
    }

    async fn partitions_page(
        &self,
        filter: &Selection,
        after: Option<&PartitionKey>,
        limit: PageLimit,
    ) -> Result<Vec<PartitionRecord>> {
        const DOING: &str = "listing partitions";
        let (start, end) = filter.stretch(after, limit.order);
        let bounds = PageBounds {
            after_source: &start.source,
            after_customer_id: &start.customer_id,
            after_query_name: &start.query_name,
            after_logical_date: day(&start),
            last_source: &end.source,
            last_customer_id: &end.customer_id,
            last_query_name: &end.query_name,
            last_logical_date: day(&end),
            limit: i64::from(limit.rows),
        };
        let page = bind!(queries::PARTITIONS_PAGE, ..PageBounds(bounds));
        let mut session = self.session(DOING).await?;
        let units = SelectionSql::PARTITIONS.in_order(limit.order);
        let rows = session.select(page, &units, filter).await?;
        read_records(&rows, DOING)
    }

    async fn partitions_by_id(
        &self,
        after: PartitionId,
        limit: u32,
    ) -> Result<Vec<PartitionRecord>> {
        const DOING: &str = "reading partitions";
        let mut session = self.session(DOING).await?;
        let page = bind!(queries::PARTITIONS_BY_ID, after => &after.0, limit => &i64::from(limit));
        let rows = session.query(page).await?;
        read_records(&rows, DOING)
    }

    async fn partition_dates(
        &self,
        series: &PartitionSeries,
        range: DateRange,
    ) -> Result<Vec<(LogicalDate, PartitionStatus)>> {
        const DOING: &str = "reading the days of partitions";
        let PartitionSeries { source, customer_id, query_name } = series;
        let dates = bind!(
            queries::PARTITION_DATES,
            source => source,
            customer_id => customer_id,
            query_name => query_name,
            since => &Day::On(range.since()),
            until => &Day::On(range.until()),
        );
        let rows = self.session(DOING).await?.query(dates).await?;
        read_records(&rows, DOING)
    }

    async fn partition_counts(&self) -> Result<Vec<PartitionCount>> {
        const DOING: &str = "counting partitions";
        let count = bind!(queries::PARTITION_COUNTS);
        let mut session = self.session(DOING).await?;
        let results = session.transaction_with(BEGIN_FULL_SCAN, &[count]).await?;
        let rows = results.last().map(Vec::as_slice).unwrap_or_default();
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
        const DOING: &str = "reading the backlog of a source";
        let backlog = bind!(queries::PARTITION_BACKLOG, source => &source);
        let rows = self.session(DOING).await?.query(backlog).await?;
        Ok(read_records(&rows, DOING)?.pop().unwrap_or_default())
    }
}

columns! {
    /// Where a page of partitions begins and ends.
    struct PageBounds<'a> {
        after_source: &'a str,
        after_customer_id: &'a str,
        after_query_name: &'a str,
        after_logical_date: Day,
        last_source: &'a str,
        last_customer_id: &'a str,
        last_query_name: &'a str,
        last_logical_date: Day,
        limit: i64,
    }
}

const CLAIMING: &str = "claiming partitions";

/// Locks claimable work, and claims it.
async fn claim_work(
    store: &PostgresStore,
    session: &mut Session,
    claim: &PartitionClaim,
) -> Result<Vec<ClaimedPartition>> {
    let PartitionClaim { gates, owner, now, .. } = claim;
    let (kind, limit) = (UnitKind::Partition, claim.limit());
    let asked = GateRequest { gates, kind, owner, limit, now: *now };
    let backfill_limit = i64::from(claim.backfill.quota(limit));
    let limit = i64::from(limit);
    let claimable = bind!(
        queries::CLAIMABLE_PARTITIONS,
        source => &claim.source,
        limit => &limit,
        backfill_limit => &backfill_limit,
    );
    let rows = if gates.is_empty() {
        session.begin(claimable).await?
    } else {
        match asked.begin(store, session, &[]).await? {
            Some(rows) => return claim_behind_gates(store, session, claim, &asked, rows).await,
            None => session.query(claimable).await?,
        }
    };
    redrive_store::failpoint!("postgres.claim_partitions.locked");
    let ids: Vec<i64> = read_rows(&rows, CLAIMING, |row| row.get())?;
    let claimed = claim_chosen(session, claim, &ids).await?;
    session.commit().await?;
    Ok(claimed)
}

async fn claim_behind_gates(
    store: &PostgresStore,
    session: &mut Session,
    claim: &PartitionClaim,
    asked: &GateRequest<'_>,
    rows: Vec<GateRecord>,
) -> Result<Vec<ClaimedPartition>> {
    let customers = bind!(queries::PARTITION_CUSTOMERS, source => &claim.source);
    let present = read_rows(&session.query(customers).await?, CLAIMING, |row| row.get())?;
    let gated = asked.look(store, session, rows, present, |_| true).await?;
    let most = |most: u32| i64::from(most.min(gated.limit));
    let candidates = bind!(
        queries::CLAIMABLE_PARTITIONS_OF,
        source => &claim.source,
        key => &each(&gated.most, |(customer, _)| customer),
        most => &each(&gated.most, |(_, of_customer)| most(*of_customer)),
    );
    let candidates = read_records(&session.query(candidates).await?, CLAIMING)?;
    let ids = claim.choose(candidates, gated.limit, &gated.most);
    let mut claimed = claim_chosen(session, claim, &ids).await?;
    let units = each(&claimed, ClaimedPartition::let_through);
    let passes = asked.commit(store, session, gated, &units).await?;
    for (partition, pass) in claimed.iter_mut().zip(passes) {
        partition.pass = pass;
    }
    Ok(claimed)
}

/// Claims locked work, in the open transaction.
async fn claim_chosen(
    session: &mut Session,
    claim: &PartitionClaim,
    ids: &[i64],
) -> Result<Vec<ClaimedPartition>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids = ids.to_vec();
    let runs: Vec<&str> =
        claim.run_ids.iter().map(PartitionRunId::as_str).take(ids.len()).collect();
    let update = bind!(
        queries::CLAIM_PARTITIONS,
        id => &ids,
        run_id => &runs,
        owner => &claim.owner.0,
        lease_until => &Micros(claim.lease_until),
    );
    let read = bind!(queries::PARTITIONS_AT_WORK, id => &ids);
    let results = session.continue_all(&[update, read]).await?;
    let rows = results.last().map(Vec::as_slice).unwrap_or_default();
    let records: Vec<PartitionRecord> = read_records(rows, CLAIMING)?;
    Ok(ClaimedPartition::in_order(records.into_iter().filter_map(ClaimedPartition::of)))
}

fn day(place: &KeyPlace) -> Day {
    place.logical_date.map_or(Day::BeforeAll, Day::On)
}
