//! Figures for dashboards and metrics.

use async_trait::async_trait;
use redrive_core::ItemStatus;
use redrive_store::{Activity, Figures, JournalFilter, JournalRecord, LagCount, Result};
use rusqlite::{Connection, params};

use crate::{SqliteStore, columns::read_records, error::Doing, queries};

#[async_trait]
impl Figures for SqliteStore {
    async fn change_token(&self) -> Result<u64> {
        self.watch(|connection| {
            let version: u64 = connection
                .prepare_cached(queries::CHANGE_TOKEN)
                .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
                .doing("asking whether anything changed")?;
            // A database in memory changes on this same connection, which `data_version` does not
            // count.
            Ok(version.wrapping_add(connection.total_changes()))
        })
        .await
    }

    async fn activity(&self, after: i64, most: u32) -> Result<Activity> {
        self.read(move |connection| read_activity(connection, after, most)).await
    }

    async fn lags(&self, after: i64, end: i64) -> Result<Vec<LagCount>> {
        self.read(move |connection| {
            let (doing, stretch) = ("reading how long runs waited", params![after, end]);
            read_records(connection, doing, queries::ACTIVITY_LAGS, stretch)
        })
        .await
    }

    async fn newest_journal(
        &self,
        filter: &JournalFilter,
        before: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>> {
        let pages = (queries::NEWEST_JOURNAL, queries::NEWEST_JOURNAL_OF_UNIT);
        self.read_journal(pages, filter, before, limit).await
    }

    async fn items_by_status(&self) -> Result<Vec<(ItemStatus, u64)>> {
        self.read(|connection| {
            read_records(connection, "counting items", queries::ITEMS_BY_STATUS, [])
        })
        .await
    }
}

fn read_activity(connection: &Connection, after: i64, most: u32) -> Result<Activity> {
    const DOING: &str = "reading what was attempted";
    let end: i64 = connection.query_row(queries::LEDGER_END, [], |row| row.get(0)).doing(DOING)?;
    let after = after.max(end.saturating_sub(i64::from(most)));
    let counts = read_records(connection, DOING, queries::ACTIVITY_COUNTS, params![after, end])?;
    Ok(Activity { after, end, counts })
}
