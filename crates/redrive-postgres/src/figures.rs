//! Figures for metrics and the dashboard.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::ItemStatus;
use redrive_store::{
    Activity, ActivityCount, AttemptOutcome, Figures, JournalFilter, JournalRecord, LagCount,
    RecentCause, Result, UnitKind,
};

use crate::{
    PostgresStore,
    bound_query::bind,
    columns::{PostgresRow, read_rows},
    queries,
};

/// Distinct causes that are reported.
const MAX_CAUSES: i64 = 50;

#[async_trait]
impl Figures for PostgresStore {
    async fn change_token(&self) -> Result<u64> {
        const DOING: &str = "reading the change token";
        let mut session = self.session(DOING).await?;
        let rows = session.query(bind!(queries::CHANGE_TOKEN)).await?;
        let places: Vec<i64> = read_rows(&rows, DOING, |row| row.get())?;
        Ok(places.first().copied().unwrap_or_default().unsigned_abs())
    }

    async fn activity(&self, after: i64, most: u32) -> Result<Activity> {
        const DOING: &str = "reading recent attempts";
        let mut session = self.session(DOING).await?;
        let rows = session.query(bind!(queries::LEDGER_END)).await?;
        let ends: Vec<i64> = read_rows(&rows, DOING, |row| row.get())?;
        let end = ends.first().copied().unwrap_or_default();
        let after = after.max(end.saturating_sub(i64::from(most)));
        let counts = bind!(queries::ACTIVITY_COUNTS, after => &after, end => &end);
        let rows = session.query(counts).await?;
        let counts = read_rows(&rows, DOING, |row| {
            Ok(ActivityCount {
                kind: row.named("kind", UnitKind::from_name)?,
                outcome: row.named("outcome", AttemptOutcome::from_name)?,
                class: row.get()?,
                lost: row.get()?,
                reached: reached(row)?,
                minute: row.timestamp()?,
                attempts: row.count("attempts")?,
                took: Duration::from_micros(row.count("took")?),
            })
        })?;
        let causes =
            bind!(queries::ACTIVITY_CAUSES, after => &after, end => &end, limit => &MAX_CAUSES);
        let rows = session.query(causes).await?;
        let causes = read_rows(&rows, DOING, read_cause)?;
        Ok(Activity { after, end, counts, causes })
    }

    async fn lags(&self, after: i64, end: i64) -> Result<Vec<LagCount>> {
        const DOING: &str = "reading how long runs waited";
        let mut session = self.session(DOING).await?;
        let lags = bind!(queries::ACTIVITY_LAGS, after => &after, end => &end);
        let rows = session.query(lags).await?;
        read_rows(&rows, DOING, |row| {
            let (reached, runs) = (reached(row)?, row.count("runs")?);
            Ok(LagCount { reached, runs, waited: Duration::from_micros(row.count("waited")?) })
        })
    }

    async fn newest_journal(
        &self,
        filter: &JournalFilter,
        before: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>> {
        let (action, limit) = (&filter.action, i64::from(limit));
        let page = match &filter.unit {
            Some(unit) => bind!(
                queries::NEWEST_JOURNAL_OF_UNIT,
                unit => unit,
                before => &before,
                action => action,
                limit => &limit,
            ),
            None => {
                bind!(queries::NEWEST_JOURNAL, before => &before, action => action, limit => &limit)
            }
        };
        self.read_journal(page).await
    }

    async fn items_by_status(&self) -> Result<Vec<(ItemStatus, u64)>> {
        const DOING: &str = "counting items";
        let mut session = self.session(DOING).await?;
        let rows = session.query(bind!(queries::ITEMS_BY_STATUS)).await?;
        read_rows(&rows, DOING, |row| {
            Ok((row.named("status", ItemStatus::from_name)?, row.count("items")?))
        })
    }
}

/// The number of histogram bounds that a value has reached.
fn reached(row: &mut PostgresRow<'_>) -> Result<u8> {
    let reached: i32 = row.get()?;
    Ok(u8::try_from(reached).unwrap_or(u8::MAX))
}

fn read_cause(row: &mut PostgresRow<'_>) -> Result<RecentCause> {
    Ok(RecentCause {
        kind: row.named("kind", UnitKind::from_name)?,
        fingerprint: row.get()?,
        code: row.get()?,
        message: row.get()?,
        unit_id: row.get()?,
        attempts: row.count("attempts")?,
        last_at: row.timestamp()?,
    })
}
