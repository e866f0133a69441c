//! Implements [`Journal`].

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    Error, Journal, JournalEntry, JournalFilter, JournalRecord, ReaderPlace, Result, Written,
};
use rusqlite::{Connection, params};

use crate::{
    SqliteStore,
    columns::{micros, read_page, read_records},
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
        let pages = (queries::JOURNAL_PAGE, queries::JOURNAL_OF_UNIT);
        self.read_journal(pages, filter, after, limit).await
    }

    async fn journal_reader(&self, name: &str, now: Timestamp) -> Result<ReaderPlace> {
        const DOING: &str = "reading how far the journal was read";
        let known = name.to_owned();
        let place = |name: &str, connection: &Connection| {
            let places = read_records(connection, DOING, queries::JOURNAL_READER, [name]);
            places.map(|mut places: Vec<ReaderPlace>| places.pop())
        };
        if let Some(place) = self.read(move |connection| place(&known, connection)).await? {
            return Ok(place);
        }
        let name = name.to_owned();
        let begun = self.write(move |connection| {
            connection
                .prepare_cached(queries::BEGIN_JOURNAL_READER)
                .doing(DOING)?
                .execute(params![name, micros(now)])
                .doing(DOING)?;
            place(&name, connection)
        });
        begun.await?.ok_or_else(|| Error::misuse(DOING, "it has no place"))
    }

    async fn move_journal_reader(
        &self,
        name: &str,
        from: &ReaderPlace,
        to: &ReaderPlace,
    ) -> Result<Written> {
        const DOING: &str = "noting how far the journal was read";
        let (name, from, to) = (name.to_owned(), from.clone(), to.clone());
        self.write(move |connection| {
            let (was, is) = (micros(from.seen_at), micros(to.seen_at));
            let moved = connection
                .prepare_cached(queries::MOVE_JOURNAL_READER)
                .doing(DOING)?
                .execute(params![name, from.seen, was, to.settled, to.seen, is])
                .doing(DOING)?;
            Ok(if moved > 0 { Written::Applied } else { Written::Stale })
        })
        .await
    }
}

impl SqliteStore {
    /// A page of the journal, with one query for all entries and one for the entries of a unit.
    pub(crate) async fn read_journal(
        &self,
        (of_all, of_unit): (&'static str, &'static str),
        filter: &JournalFilter,
        place: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>> {
        const DOING: &str = "reading the journal";
        let JournalFilter { unit, action } = filter.clone();
        self.read(move |connection| match &unit {
            Some(unit) => {
                let params = params![place, action, limit, unit];
                read_page(connection, DOING, of_unit, params)
            }
            None => read_page(connection, DOING, of_all, params![place, action, limit]),
        })
        .await
    }
}

/// Returns `false` if the dedupe key exists already.
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
