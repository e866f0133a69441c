//! The journal.

use async_trait::async_trait;
use redrive_store::{Journal, JournalEntry, JournalFilter, JournalRecord, Result};
use rusqlite::{Connection, params};

use crate::{
    SqliteStore,
    columns::{Columns, micros, read_rows},
    error::Doing,
    queries,
};

#[async_trait]
impl Journal for SqliteStore {
    async fn append_journal(&self, entries: &[JournalEntry]) -> Result<Vec<bool>> {
        let entries = entries.to_vec();
        self.write(move |connection| {
            entries.iter().map(|entry| insert_journal(connection, entry)).collect()
        })
        .await
    }

    async fn journal_page(
        &self,
        filter: &JournalFilter,
        after: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>> {
        const DOING: &str = "reading the journal";
        let JournalFilter { unit, action } = filter.clone();
        self.read(move |connection| match &unit {
            Some(unit) => {
                let params = params![after, action, limit, unit];
                read_rows(connection, DOING, queries::JOURNAL_OF_UNIT, params, read_entry)
            }
            None => {
                let params = params![after, action, limit];
                read_rows(connection, DOING, queries::JOURNAL_PAGE, params, read_entry)
            }
        })
        .await
    }
}

/// Adds one entry, and says whether it was new.
pub(crate) fn insert_journal(connection: &Connection, entry: &JournalEntry) -> Result<bool> {
    const DOING: &str = "writing the journal";
    let added = connection
        .prepare_cached(queries::INSERT_JOURNAL)
        .doing(DOING)?
        .execute(params![
            micros(entry.at),
            entry.actor,
            entry.action,
            entry.unit,
            entry.filter,
            entry.details,
            entry.dedupe_key,
        ])
        .doing(DOING)?;
    Ok(added > 0)
}

pub(crate) fn read_entry(row: &mut Columns<'_>) -> Result<JournalRecord> {
    Ok(JournalRecord {
        id: row.get()?,
        entry: JournalEntry {
            at: row.timestamp()?,
            actor: row.get()?,
            action: row.get()?,
            unit: row.get()?,
            filter: row.get()?,
            details: row.get()?,
            dedupe_key: row.get()?,
        },
    })
}
