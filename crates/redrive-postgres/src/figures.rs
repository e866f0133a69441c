//! Figures for metrics and the dashboard.

use async_trait::async_trait;
use redrive_core::ItemStatus;
use redrive_store::{
    Activity, Figures, JournalFilter, JournalRecord, LagCount, MAX_PAGE_BYTES, ReadColumn, Result,
};

use crate::{
    PostgresStore,
    bound_query::bind,
    columns::{read_records, read_rows},
    queries,
};

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
        let counts = read_records(&rows, DOING)?;
        Ok(Activity { after, end, counts })
    }

    async fn lags(&self, after: i64, end: i64) -> Result<Vec<LagCount>> {
        const DOING: &str = "reading how long runs waited";
        let mut session = self.session(DOING).await?;
        let lags = bind!(queries::ACTIVITY_LAGS, after => &after, end => &end);
        let rows = session.query(lags).await?;
        read_records(&rows, DOING)
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
                max_bytes => &(MAX_PAGE_BYTES as i64),
            ),
            None => bind!(
                queries::NEWEST_JOURNAL,
                before => &before,
                action => action,
                limit => &limit,
                max_bytes => &(MAX_PAGE_BYTES as i64),
            ),
        };
        self.read_journal(page).await
    }

    async fn items_by_status(&self) -> Result<Vec<(ItemStatus, u64)>> {
        const DOING: &str = "counting items";
        let mut session = self.session(DOING).await?;
        let rows = session.query(bind!(queries::ITEMS_BY_STATUS)).await?;
        read_records(&rows, DOING)
    }
}
