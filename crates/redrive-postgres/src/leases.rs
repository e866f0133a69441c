//! Leases: renew, expire, release.

use std::collections::HashSet;

use crate::{
    PostgresStore,
    batch::{FirstOccurrences, each},
    bound_query::bind,
    columns::{Micros, PostgresRow, read_records, read_rows},
    journal::JournalColumns,
    queries,
};
use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{PartitionKey, PartitionRunId};
use redrive_store::{
    ExpiredLease, FromRow, ItemGroup, JournalEntry, LeaseRef, LeaseRelease, Leased, Leases, Result,
    RowReader, WorkerId, Written,
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
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let renew = bind!(
            match kind {
                Leased::Partition => queries::RENEW_PARTITION_LEASES,
                Leased::Run => queries::RENEW_RUN_LEASES,
                Leased::Group => queries::RENEW_GROUP_LEASES,
                Leased::Sample => queries::RENEW_SAMPLE_LEASES,
                Leased::Feed => queries::RENEW_FEED_LEASES,
            },
            id => &each(leases, |lease| lease.id),
            epoch => &each(leases, |lease| lease.epoch.0),
            lease_until => &Micros(until),
        );
        let mut session = self.session(DOING).await?;
        let rows = session.query(renew).await?;
        redrive_store::failpoint!("postgres.renew.committed");
        self.correct_clock(&mut session).await;
        let held: HashSet<LeaseRef> = read_records(&rows, DOING)?.into_iter().collect();
        Ok(each(leases, |lease| Written::from_changed(held.contains(lease))))
    }

    async fn expired_leases(
        &self,
        kind: Leased,
        now: Timestamp,
        owner: Option<&WorkerId>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ExpiredLease>> {
        const DOING: &str = "reading ended leases";
        let page = bind!(
            match kind {
                Leased::Partition => queries::EXPIRED_PARTITION_LEASES,
                Leased::Run => queries::EXPIRED_RUN_LEASES,
                Leased::Group => queries::EXPIRED_GROUP_LEASES,
                Leased::Sample => queries::EXPIRED_SAMPLE_LEASES,
                Leased::Feed => queries::EXPIRED_FEED_LEASES,
            },
            now => &Micros(now),
            owner => &owner.map(|owner| &owner.0),
            after => &after,
            limit => &i64::from(limit),
        );
        let rows = self.session(DOING).await?.query(page).await?;
        read_records(&rows, DOING)
    }

    async fn next_lease_end(&self, kind: Leased, now: Timestamp) -> Result<Option<Timestamp>> {
        const DOING: &str = "reading the next lease end";
        let next = bind!(
            match kind {
                Leased::Partition => queries::NEXT_PARTITION_LEASE_END,
                Leased::Run => queries::NEXT_RUN_LEASE_END,
                Leased::Group => queries::NEXT_GROUP_LEASE_END,
                Leased::Sample => queries::NEXT_SAMPLE_LEASE_END,
                Leased::Feed => queries::NEXT_FEED_LEASE_END,
            },
            after => &Micros(now),
        );
        let rows = self.session(DOING).await?.query(next).await?;
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
        // The first release ends the lease, so a repetition is stale.
        let batch = FirstOccurrences::of(releases, |release| release.lease);
        let written = match kind {
            Leased::Run => release_runs(self, &batch, at).await?,
            Leased::Partition => {
                release_journalled(self, ReleaseKind::Partition, &batch, at).await?
            }
            Leased::Group => release_journalled(self, ReleaseKind::Group, &batch, at).await?,
            Leased::Sample => release_journalled(self, ReleaseKind::Sample, &batch, at).await?,
            Leased::Feed => release_journalled(self, ReleaseKind::Source, &batch, at).await?,
        };
        redrive_store::failpoint!("postgres.hand_back.committed");
        self.claim_cursors.runs_became_ready_anywhere();
        self.notify_if(written.contains(&Written::Applied)).await;
        Ok(written)
    }
}

async fn release_runs(
    store: &PostgresStore,
    batch: &FirstOccurrences<'_, LeaseRelease>,
    at: Timestamp,
) -> Result<Vec<Written>> {
    const DOING: &str = "releasing runs";
    let journal: Vec<JournalEntry> = each(&batch.rows, |release| release.run_entry(at));
    let columns = JournalColumns::of(journal.iter().map(Some));
    let id = each(&batch.rows, |release| release.lease.id);
    let epoch = each(&batch.rows, |release| release.lease.epoch.0);
    let release =
        bind!(queries::RELEASE_RUNS, id => &id, epoch => &epoch, ..JournalColumns(columns));
    let lock = bind!(queries::LOCK_RUNS, ids => &id);
    let mut session = store.session(DOING).await?;
    let mut released = Vec::new();
    // A renewal that the query waited for has moved runs to a claim that the query could not see; the second time it does.
    for _ in 0..2 {
        released.extend(session.transaction(&[lock, release]).await?.pop().unwrap_or_default());
        if released.len() == batch.rows.len() {
            break;
        }
    }
    batch.written(&released, DOING)
}

/// Releases partitions, groups, samples or sources. The journal names them by what their leases do not
/// have, so the update returns it.
async fn release_journalled(
    store: &PostgresStore,
    kind: ReleaseKind,
    batch: &FirstOccurrences<'_, LeaseRelease>,
    at: Timestamp,
) -> Result<Vec<Written>> {
    let doing = match kind {
        ReleaseKind::Partition => "releasing partitions",
        ReleaseKind::Group => "releasing groups",
        ReleaseKind::Sample => "releasing samples",
        ReleaseKind::Source => "releasing sources",
    };
    let release = bind!(
        match kind {
            ReleaseKind::Partition => queries::RELEASE_PARTITIONS,
            ReleaseKind::Group => queries::RELEASE_GROUPS,
            ReleaseKind::Sample => queries::RELEASE_SAMPLES,
            ReleaseKind::Source => queries::FINISH_FEEDS,
        },
        id => &each(&batch.rows, |release| release.lease.id),
        epoch => &each(&batch.rows, |release| release.lease.epoch.0),
    );
    let mut session = store.session(doing).await?;
    let rows = session.begin(release).await?;
    let entries = read_rows(&rows, doing, |row| {
        let place: usize = row.count("place")?;
        let release = place.checked_sub(1).and_then(|place| batch.rows.get(place));
        release.map(|release| kind.entry(row, release, at)).transpose()
    })?;
    let entries: Vec<JournalEntry> = entries.into_iter().flatten().collect();
    let journal = JournalColumns::of(entries.iter().map(Some));
    let insert = [bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal))];
    session.commit_all(if entries.is_empty() { &[] } else { &insert }).await?;
    batch.written(&rows, doing)
}

/// Kinds of units whose release is journalled by a statement of its own.
#[derive(Clone, Copy)]
enum ReleaseKind {
    Partition,
    Group,
    Sample,
    Source,
}

impl ReleaseKind {
    fn entry(
        self,
        row: &mut PostgresRow<'_>,
        release: &LeaseRelease,
        at: Timestamp,
    ) -> Result<JournalEntry> {
        Ok(match self {
            Self::Partition => {
                let run_id: Option<PartitionRunId> =
                    row.optional_named("run_id", |id| id.parse().ok())?;
                release.partition_entry(&PartitionKey::from_row(row)?, run_id.as_ref(), at)
            }
            Self::Group => release.group_entry(&ItemGroup::from_row(row)?, at),
            Self::Sample => release.sample_entry(row.optional_text()?.unwrap_or_default(), at),
            Self::Source => release.feed_entry(at),
        })
    }
}
