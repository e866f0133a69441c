//! The journal: all events and operator actions.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    Error, Journal, JournalEntry, JournalFilter, JournalRecord, MAX_PAGE_BYTES, ReadColumn,
    ReaderPlace, Result, Written,
};
use tokio_postgres::Row;

use crate::{
    PostgresStore,
    bound_query::{BoundQuery, bind, columns},
    columns::{Micros, read_records, read_rows},
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
        let rows = session.query(bind!(queries::INSERT_JOURNAL, ..JournalColumns(columns))).await?;
        let keys: Vec<Option<String>> = read_rows(&rows, DOING, |row| row.get())?;
        let mut added: HashSet<String> = keys.into_iter().flatten().collect();
        // Only the first entry of a new key is added.
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
        let (action, limit) = (&filter.action, i64::from(limit));
        let page = match &filter.unit {
            Some(unit) => bind!(
                queries::JOURNAL_OF_UNIT,
                unit => unit,
                after => &after,
                action => action,
                limit => &limit,
                max_bytes => &(MAX_PAGE_BYTES as i64),
            ),
            None => bind!(
                queries::JOURNAL_PAGE,
                after => &after,
                action => action,
                limit => &limit,
                max_bytes => &(MAX_PAGE_BYTES as i64),
            ),
        };
        self.read_journal(page).await
    }

    async fn journal_reader(&self, name: &str, now: Timestamp) -> Result<ReaderPlace> {
        const DOING: &str = "reading the position of a journal reader";
        let mut session = self.session(DOING).await?;
        let place = |rows: &[Row]| {
            let places = read_records(rows, DOING);
            places.map(|mut places: Vec<ReaderPlace>| places.pop())
        };
        let read = bind!(queries::JOURNAL_READER, name => &name);
        if let Some(place) = place(&session.query(read).await?)? {
            return Ok(place);
        }
        let begin = bind!(queries::BEGIN_JOURNAL_READER, name => &name, now => &Micros(now));
        session.query(begin).await?;
        let started = place(&session.query(read).await?)?;
        started.ok_or_else(|| Error::misuse(DOING, "the reader was removed while it started"))
    }

    async fn move_journal_reader(
        &self,
        name: &str,
        from: &ReaderPlace,
        to: &ReaderPlace,
    ) -> Result<Written> {
        const DOING: &str = "moving a journal reader";
        let move_reader = bind!(
            queries::MOVE_JOURNAL_READER,
            name => &name,
            old_seen => &from.seen,
            old_seen_at => &Micros(from.seen_at),
            settled => &to.settled,
            seen => &to.seen,
            seen_at => &Micros(to.seen_at),
        );
        let moved = self.session(DOING).await?.query(move_reader).await?;
        Ok(if moved.is_empty() { Written::Stale } else { Written::Applied })
    }
}

impl PostgresStore {
    pub(crate) async fn read_journal(&self, page: BoundQuery<'_>) -> Result<Vec<JournalRecord>> {
        const DOING: &str = "reading the journal";
        let rows = self.session(DOING).await?.query(page).await?;
        read_records(&rows, DOING)
    }
}

columns! {
    /// Journal entries as arrays. A batch of units may have an entry for some of its rows only.
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
}
