//! Leases.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::Epoch;
use redrive_store::{
    ExpiredLease, ItemGroup, JournalEntry, LeaseRef, LeaseRelease, Leased, Leases, Result,
    WorkerId, Written,
};
use tokio_postgres::types::ToSql;

use crate::{
    PostgresStore,
    batch::{Firsts, each},
    columns::{Columns, Micros, read_rows},
    journal::JournalColumns,
    partition_columns::{read_key, read_run_id},
    queries,
    session::Command,
};

#[async_trait]
impl Leases for PostgresStore {
    async fn renew_leases(
        &self,
        kind: Leased,
        leases: &[LeaseRef],
        until: Timestamp,
    ) -> Result<Vec<Written>> {
        const DOING: &str = "renewing leases";
        let sql = match kind {
            Leased::Partition => queries::RENEW_PARTITION_LEASES,
            Leased::Run => queries::RENEW_RUN_LEASES,
            Leased::Group => queries::RENEW_GROUP_LEASES,
            Leased::Sample => queries::RENEW_SAMPLE_LEASES,
            Leased::Feed => queries::RENEW_FEED_LEASES,
        };
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let mut session = self.session(DOING).await?;
        let rows = session
            .query(
                sql,
                &[
                    &each(leases, |lease| lease.id),
                    &each(leases, |lease| lease.epoch.0),
                    &Micros(until),
                ],
            )
            .await?;
        redrive_store::failpoint!("postgres.renew.committed");
        self.correct_clock(&mut session).await;
        let held: HashSet<LeaseRef> = read_rows(&rows, DOING, |row| {
            Ok(LeaseRef { id: row.get()?, epoch: Epoch(row.get()?) })
        })?
        .into_iter()
        .collect();
        Ok(each(leases, |lease| Written::from_changed(held.contains(lease))))
    }

    async fn expired_leases(
        &self,
        kind: Leased,
        now: Timestamp,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ExpiredLease>> {
        const DOING: &str = "looking for ended leases";
        let sql = match kind {
            Leased::Partition => queries::EXPIRED_PARTITION_LEASES,
            Leased::Run => queries::EXPIRED_RUN_LEASES,
            Leased::Group => queries::EXPIRED_GROUP_LEASES,
            Leased::Sample => queries::EXPIRED_SAMPLE_LEASES,
            Leased::Feed => queries::EXPIRED_FEED_LEASES,
        };
        let mut session = self.session(DOING).await?;
        let rows = session.query(sql, &[&Micros(now), &after, &i64::from(limit)]).await?;
        read_rows(&rows, DOING, |row| {
            Ok(ExpiredLease {
                lease: LeaseRef { id: row.get()?, epoch: Epoch(row.get()?) },
                owner: WorkerId(row.get()?),
                until: row.timestamp()?,
            })
        })
    }

    async fn next_lease_end(&self, kind: Leased, now: Timestamp) -> Result<Option<Timestamp>> {
        const DOING: &str = "looking for the next lease end";
        let sql = match kind {
            Leased::Partition => queries::NEXT_PARTITION_LEASE_END,
            Leased::Run => queries::NEXT_RUN_LEASE_END,
            Leased::Group => queries::NEXT_GROUP_LEASE_END,
            Leased::Sample => queries::NEXT_SAMPLE_LEASE_END,
            Leased::Feed => queries::NEXT_FEED_LEASE_END,
        };
        let mut session = self.session(DOING).await?;
        let rows = session.query(sql, &[&Micros(now)]).await?;
        let ends = read_rows(&rows, DOING, |row| row.optional_timestamp())?;
        Ok(ends.into_iter().flatten().next())
    }

    async fn release_leases(
        &self,
        kind: Leased,
        releases: &[LeaseRelease],
        at: Timestamp,
    ) -> Result<Vec<Written>> {
        if releases.is_empty() {
            return Ok(Vec::new());
        }
        // After the first of two equal ones there is nothing left to give back.
        let batch = Firsts::of(releases, |back| back.lease);
        let written = match kind {
            Leased::Partition => hand_back_partitions(self, &batch, at).await?,
            Leased::Run => hand_back_runs(self, &batch, at).await?,
            Leased::Group => hand_back_groups(self, &batch, at).await?,
            Leased::Sample => hand_back_samples(self, &batch, at).await?,
            Leased::Feed => hand_back_feeds(self, &batch, at).await?,
        };
        redrive_store::failpoint!("postgres.hand_back.committed");
        self.marks.came_anywhere();
        self.tell_if(written.contains(&Written::Applied)).await;
        Ok(written)
    }
}

async fn hand_back_runs(
    store: &PostgresStore,
    batch: &Firsts<'_, LeaseRelease>,
    at: Timestamp,
) -> Result<Vec<Written>> {
    const DOING: &str = "handing runs back";
    let journal: Vec<JournalEntry> = each(&batch.rows, |back| back.run_entry(at));
    let columns = JournalColumns::of(journal.iter().map(Some));
    let ids = each(&batch.rows, |back| back.lease.id);
    let epochs = each(&batch.rows, |back| back.lease.epoch.0);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&ids, &epochs];
    values.extend(columns.values());
    let mut session = store.session(DOING).await?;
    let rows = session.query(queries::HAND_BACK_RUNS, &values).await?;
    batch.written(&rows, DOING)
}

/// The journal names partitions by their keys, which the rows of work do not have.
async fn hand_back_partitions(
    store: &PostgresStore,
    batch: &Firsts<'_, LeaseRelease>,
    at: Timestamp,
) -> Result<Vec<Written>> {
    const DOING: &str = "handing partitions back";
    hand_back_told(store, batch, DOING, queries::HAND_BACK_PARTITIONS, |row, back| {
        let run_id = read_run_id(row, "run_id")?;
        let key = read_key(row)?;
        Ok(back.partition_entry(&key, run_id.as_ref(), at))
    })
    .await
}

/// It names groups, which their leases do not.
async fn hand_back_groups(
    store: &PostgresStore,
    batch: &Firsts<'_, LeaseRelease>,
    at: Timestamp,
) -> Result<Vec<Written>> {
    const DOING: &str = "handing groups back";
    hand_back_told(store, batch, DOING, queries::HAND_BACK_GROUPS, |row, back| {
        let group = ItemGroup { upload: row.get()?, group: row.get()? };
        Ok(back.group_entry(&group, at))
    })
    .await
}

/// It names samples by their stages, which their leases do not.
async fn hand_back_samples(
    store: &PostgresStore,
    batch: &Firsts<'_, LeaseRelease>,
    at: Timestamp,
) -> Result<Vec<Written>> {
    const DOING: &str = "handing samples back";
    hand_back_told(store, batch, DOING, queries::HAND_BACK_SAMPLES, |row, back| {
        let stage: Option<&str> = row.get()?;
        Ok(back.sample_entry(stage.unwrap_or_default(), at))
    })
    .await
}

async fn hand_back_feeds(
    store: &PostgresStore,
    batch: &Firsts<'_, LeaseRelease>,
    at: Timestamp,
) -> Result<Vec<Written>> {
    const DOING: &str = "handing sources back";
    let sql = queries::FINISH_FEEDS;
    hand_back_told(store, batch, DOING, sql, |_, back| Ok(back.feed_entry(at))).await
}

/// Hands back by a statement that answers with what the journal is to say.
async fn hand_back_told(
    store: &PostgresStore,
    batch: &Firsts<'_, LeaseRelease>,
    doing: &'static str,
    sql: &'static str,
    entry: impl Fn(&mut Columns<'_>, &LeaseRelease) -> Result<JournalEntry>,
) -> Result<Vec<Written>> {
    let ids = each(&batch.rows, |back| back.lease.id);
    let epochs = each(&batch.rows, |back| back.lease.epoch.0);
    let mut session = store.session(doing).await?;
    let rows = session.begin(sql, &[&ids, &epochs]).await?;
    let told = read_rows(&rows, doing, |row| {
        let place: usize = row.count("place")?;
        let back = place.checked_sub(1).and_then(|place| batch.rows.get(place));
        back.map(|back| entry(row, back)).transpose()
    })?;
    let told: Vec<JournalEntry> = told.into_iter().flatten().collect();
    let journal = JournalColumns::of(told.iter().map(Some));
    let tell = Command { sql: queries::INSERT_JOURNAL, values: &journal.values() };
    session.commit_all(if told.is_empty() { &[] } else { std::slice::from_ref(&tell) }).await?;
    batch.written(&rows, doing)
}
