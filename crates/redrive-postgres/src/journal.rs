//! The journal.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    Error, Journal, JournalEntry, JournalFilter, JournalRecord, ReaderPlace, Result, Written,
};
use tokio_postgres::{Row, types::ToSql};

use crate::{
    PostgresStore,
    columns::{Columns, Micros, read_rows},
    queries,
};

#[async_trait]
impl Journal for PostgresStore {
    async fn append_journal(&self, entries: &[JournalEntry]) -> Result<Vec<bool>> {
        const DOING: &str = "writing the journal";
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let columns = JournalColumns::of(entries.iter().map(Some));
        let mut session = self.session(DOING).await?;
        let rows = session.query(queries::INSERT_JOURNAL, &columns.values()).await?;
        let keys: Vec<Option<String>> = read_rows(&rows, DOING, |row| row.get())?;
        let mut added: HashSet<String> = keys.into_iter().flatten().collect();
        // The first entry with a new key was added; a later one with the same key was not.
        let was_added = |entry: &JournalEntry| match &entry.dedupe_key {
            Some(key) => added.remove(key),
            None => true,
        };
        Ok(entries.iter().map(was_added).collect())
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
        let mut session = self.session(DOING).await?;
        let place = |rows: &[Row]| {
            let places = read_rows(rows, DOING, |row| {
                Ok(ReaderPlace { settled: row.get()?, seen: row.get()?, seen_at: row.timestamp()? })
            });
            places.map(|mut places| places.pop())
        };
        if let Some(place) = place(&session.query(queries::JOURNAL_READER, &[&name]).await?)? {
            return Ok(place);
        }
        session.query(queries::BEGIN_JOURNAL_READER, &[&name, &Micros(now)]).await?;
        let begun = place(&session.query(queries::JOURNAL_READER, &[&name]).await?)?;
        begun.ok_or_else(|| Error::misuse(DOING, "it has no place"))
    }

    async fn move_journal_reader(
        &self,
        name: &str,
        from: &ReaderPlace,
        to: &ReaderPlace,
    ) -> Result<Written> {
        const DOING: &str = "noting how far the journal was read";
        let (was, is) = (Micros(from.seen_at), Micros(to.seen_at));
        let values: [&(dyn ToSql + Sync); 6] =
            [&name, &from.seen, &was, &to.settled, &to.seen, &is];
        let moved = self.session(DOING).await?.query(queries::MOVE_JOURNAL_READER, &values).await?;
        Ok(if moved.is_empty() { Written::Stale } else { Written::Applied })
    }
}

impl PostgresStore {
    /// A page of the journal from a place on, in the direction of two queries: of all, and of a unit.
    pub(crate) async fn read_journal(
        &self,
        (of_all, of_unit): (&str, &str),
        filter: &JournalFilter,
        place: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>> {
        const DOING: &str = "reading the journal";
        let (action, limit) = (&filter.action, i64::from(limit));
        let mut session = self.session(DOING).await?;
        let rows = match &filter.unit {
            Some(unit) => {
                let values: [&(dyn ToSql + Sync); 4] = [&place, action, &limit, unit];
                session.query(of_unit, &values).await?
            }
            None => session.query(of_all, &[&place, action, &limit]).await?,
        };
        read_rows(&rows, DOING, read_entry)
    }
}

/// Entries as arrays, in the order in which every statement takes them. A batch of something else may
/// have an entry for some of its rows alone.
#[derive(Default)]
pub(crate) struct JournalColumns<'a> {
    at: Vec<Option<Micros>>,
    actor: Vec<Option<&'a str>>,
    action: Vec<Option<&'a str>>,
    unit: Vec<Option<&'a str>>,
    filter: Vec<Option<&'a str>>,
    details: Vec<Option<&'a str>>,
    dedupe_key: Vec<Option<&'a str>>,
}

impl<'a> JournalColumns<'a> {
    pub(crate) fn of(entries: impl IntoIterator<Item = Option<&'a JournalEntry>>) -> Self {
        let mut columns = Self::default();
        for entry in entries {
            columns.at.push(entry.map(|entry| Micros(entry.at)));
            columns.actor.push(entry.map(|entry| entry.actor.as_str()));
            columns.action.push(entry.map(|entry| entry.action.as_str()));
            columns.unit.push(entry.and_then(|entry| entry.unit.as_deref()));
            columns.filter.push(entry.and_then(|entry| entry.filter.as_deref()));
            columns.details.push(entry.map(|entry| entry.details.as_str()));
            columns.dedupe_key.push(entry.and_then(|entry| entry.dedupe_key.as_deref()));
        }
        columns
    }

    pub(crate) fn values(&self) -> [&(dyn ToSql + Sync); 7] {
        [
            &self.at,
            &self.actor,
            &self.action,
            &self.unit,
            &self.filter,
            &self.details,
            &self.dedupe_key,
        ]
    }
}

fn read_entry(row: &mut Columns<'_>) -> Result<JournalRecord> {
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
