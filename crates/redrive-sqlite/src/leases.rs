//! Implements [`Leases`].

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::SampleId;
use redrive_store::{
    ClaimedPartition, ExpiredLease, ItemGroup, LeaseRef, LeaseRelease, Leased, Leases, Result,
    RowReader, WorkerId, Written,
};
use rusqlite::{Connection, Params, params};

use crate::{
    SqliteStore,
    columns::{micros, read_records, read_rows},
    error::Doing,
    journal::insert_journal,
    partition_columns::at_work,
    queries, samples,
};

#[async_trait]
impl Leases for SqliteStore {
    async fn renew_leases(
        &self,
        kind: Leased,
        leases: &[LeaseRef],
        until: Timestamp,
    ) -> Result<Vec<Written>> {
        let sql = match kind {
            Leased::Partition => queries::RENEW_PARTITION_LEASES,
            Leased::Run => queries::RENEW_RUN_LEASES,
            Leased::Group => queries::RENEW_GROUP_LEASES,
            Leased::Sample => queries::RENEW_SAMPLE_LEASES,
            Leased::Feed => queries::RENEW_FEED_LEASES,
        };
        let leases = leases.to_vec();
        self.write(move |connection| {
            let renew = |lease: &LeaseRef| {
                let params = params![lease.id, lease.epoch.0, micros(until)];
                let written = guarded(connection, sql, params)?;
                redrive_store::failpoint!("sqlite.renew.row");
                Ok(written)
            };
            leases.iter().map(renew).collect()
        })
        .await
    }

    async fn expired_leases(
        &self,
        kind: Leased,
        now: Timestamp,
        owner: Option<&WorkerId>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ExpiredLease>> {
        let sql = match kind {
            Leased::Partition => queries::EXPIRED_PARTITION_LEASES,
            Leased::Run => queries::EXPIRED_RUN_LEASES,
            Leased::Group => queries::EXPIRED_GROUP_LEASES,
            Leased::Sample => queries::EXPIRED_SAMPLE_LEASES,
            Leased::Feed => queries::EXPIRED_FEED_LEASES,
        };
        let owner = owner.map(|owner| owner.0.clone());
        self.read(move |connection| {
            let params = params![micros(now), after, limit, owner];
            read_records(connection, "looking for ended leases", sql, params)
        })
        .await
    }

    async fn next_lease_end(&self, kind: Leased, now: Timestamp) -> Result<Option<Timestamp>> {
        let sql = match kind {
            Leased::Partition => queries::NEXT_PARTITION_LEASE_END,
            Leased::Run => queries::NEXT_RUN_LEASE_END,
            Leased::Group => queries::NEXT_GROUP_LEASE_END,
            Leased::Sample => queries::NEXT_SAMPLE_LEASE_END,
            Leased::Feed => queries::NEXT_FEED_LEASE_END,
        };
        self.read(move |connection| {
            let params = params![micros(now)];
            let ends =
                read_rows(connection, "looking for the next lease end", sql, params, |row| {
                    row.optional_timestamp()
                })?;
            Ok(ends.into_iter().flatten().next())
        })
        .await
    }

    async fn release_leases(
        &self,
        kind: Leased,
        releases: &[LeaseRelease],
        at: Timestamp,
    ) -> Result<Vec<Written>> {
        let releases = releases.to_vec();
        let written: Vec<Written> = self
            .write(move |connection| {
                releases.iter().map(|back| release_one(connection, kind, back, at)).collect()
            })
            .await?;
        redrive_store::failpoint!("sqlite.release.committed");
        self.wakes.wake_if(written.contains(&Written::Applied));
        Ok(written)
    }
}

fn release_one(
    connection: &Connection,
    kind: Leased,
    back: &LeaseRelease,
    at: Timestamp,
) -> Result<Written> {
    let (sql, entry) = match kind {
        Leased::Partition => {
            let held = at_work(connection, "changing leases", &[back.lease.id])?;
            let Some(held) = held.into_iter().find_map(ClaimedPartition::of) else {
                return Ok(Written::Stale);
            };
            let entry = back.partition_entry(&held.key, Some(&held.run_id), at);
            (queries::RELEASE_PARTITIONS, entry)
        }
        Leased::Run => (queries::RELEASE_RUNS, back.run_entry(at)),
        Leased::Group => return release_group(connection, back, at),
        Leased::Sample => {
            let sample = samples::by_id(connection, &[SampleId(back.lease.id)])?.pop();
            let stage = sample.map(|sample| sample.stage_name).unwrap_or_default();
            (queries::RELEASE_SAMPLES, back.sample_entry(&stage, at))
        }
        Leased::Feed => (queries::FINISH_FEEDS, back.feed_entry(at)),
    };
    let written = guarded(connection, sql, params![back.lease.id, back.lease.epoch.0])?;
    if written == Written::Applied {
        redrive_store::failpoint!("sqlite.release.row");
        insert_journal(connection, &entry)?;
        redrive_store::failpoint!("sqlite.release.journal");
    }
    Ok(written)
}

fn release_group(connection: &Connection, back: &LeaseRelease, at: Timestamp) -> Result<Written> {
    let params = params![back.lease.id, back.lease.epoch.0];
    let sql = queries::RELEASE_GROUPS;
    let groups: Vec<ItemGroup> = read_records(connection, "handing groups back", sql, params)?;
    for group in &groups {
        insert_journal(connection, &back.group_entry(group, at))?;
    }
    Ok(Written::from_changed(!groups.is_empty()))
}

fn guarded(connection: &Connection, sql: &str, params: impl Params) -> Result<Written> {
    const DOING: &str = "changing leases";
    let changed = connection.prepare_cached(sql).doing(DOING)?.execute(params).doing(DOING)?;
    Ok(Written::from_changed(changed > 0))
}
