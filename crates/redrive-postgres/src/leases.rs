//! Leases.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::Epoch;
use redrive_store::{
    ExpiredLease, HandBack, JournalEntry, LeaseRef, Leased, Leases, Result, WorkerId, Written,
};
use tokio_postgres::types::ToSql;

use crate::{
    PostgresStore,
    batch::{Firsts, each},
    columns::{Micros, read_rows},
    journal::JournalColumns,
    queries,
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
            Leased::Run => queries::RENEW_RUN_LEASES,
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
            Leased::Run => queries::EXPIRED_RUN_LEASES,
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
            Leased::Run => queries::NEXT_RUN_LEASE_END,
        };
        let mut session = self.session(DOING).await?;
        let rows = session.query(sql, &[&Micros(now)]).await?;
        let ends = read_rows(&rows, DOING, |row| row.optional_timestamp())?;
        Ok(ends.into_iter().flatten().next())
    }

    async fn hand_back(
        &self,
        kind: Leased,
        hand_backs: &[HandBack],
        at: Timestamp,
    ) -> Result<Vec<Written>> {
        const DOING: &str = "handing runs back";
        let sql = match kind {
            Leased::Run => queries::HAND_BACK_RUNS,
        };
        if hand_backs.is_empty() {
            return Ok(Vec::new());
        }
        // After the first of two equal ones there is nothing left to give back.
        let batch = Firsts::of(hand_backs, |back| back.lease);
        let journal: Vec<JournalEntry> = each(&batch.rows, |back| back.journal_entry(kind, at));
        let columns = JournalColumns::of(journal.iter().map(Some));
        let ids = each(&batch.rows, |back| back.lease.id);
        let epochs = each(&batch.rows, |back| back.lease.epoch.0);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&ids, &epochs];
        values.extend(columns.values());
        let mut session = self.session(DOING).await?;
        let rows = session.query(sql, &values).await?;
        redrive_store::failpoint!("postgres.hand_back.committed");
        self.wakes.wake_if(!rows.is_empty());
        batch.written(&rows, DOING)
    }
}
