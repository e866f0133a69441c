//! Conversions between Rust types and SQLite columns.

use std::time::Duration;

use jiff::Timestamp;
use redrive_store::{Error, MAX_PAGE_BYTES, PageRow, Result};
use rusqlite::Row;

/// Times are stored as microseconds since 1970.
pub(crate) fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// Durations are stored as microseconds.
pub(crate) fn duration_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A list of names as one parameter: a JSON array.
pub(crate) fn json_list(names: &[String]) -> String {
    serde_json::Value::from(names).to_string()
}

/// A list of ids as one parameter: a JSON array.
pub(crate) fn json_ids(ids: impl IntoIterator<Item = i64>) -> String {
    serde_json::Value::from_iter(ids).to_string()
}

/// Reads the columns of a row in order, so that a reader cannot use a wrong index.
pub(crate) struct SqliteRow<'a> {
    row: &'a Row<'a>,
    next: usize,
    doing: &'static str,
}

impl<'a> SqliteRow<'a> {
    pub(crate) fn new(row: &'a Row<'a>, doing: &'static str) -> Self {
        Self { row, next: 0, doing }
    }

    pub(crate) fn get<T: rusqlite::types::FromSql>(&mut self) -> Result<T> {
        let value = self.row.get(self.next);
        self.next += 1;
        value.map_err(|source| crate::error::database(self.doing, source))
    }

    pub(crate) fn timestamp(&mut self) -> Result<Timestamp> {
        let micros: i64 = self.get()?;
        self.to_timestamp(micros)
    }

    pub(crate) fn optional_timestamp(&mut self) -> Result<Option<Timestamp>> {
        let micros: Option<i64> = self.get()?;
        micros.map(|micros| self.to_timestamp(micros)).transpose()
    }

    fn to_timestamp(&self, micros: i64) -> Result<Timestamp> {
        Timestamp::from_microsecond(micros)
            .map_err(|_| Error::bad_value(self.doing, "a time", micros.to_string()))
    }

    /// A text column with a fixed set of names.
    pub(crate) fn named<T>(
        &mut self,
        column: &'static str,
        from_name: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let name: String = self.get()?;
        from_name(&name).ok_or_else(|| Error::bad_value(self.doing, column, name))
    }

    /// A nullable text column with a fixed set of names.
    pub(crate) fn optional_named<T>(
        &mut self,
        column: &'static str,
        from_name: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let name: Option<String> = self.get()?;
        name.map(|name| from_name(&name).ok_or_else(|| Error::bad_value(self.doing, column, name)))
            .transpose()
    }
}

pub(crate) fn read_rows<T>(
    connection: &rusqlite::Connection,
    doing: &'static str,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&mut SqliteRow<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    read_while(connection, doing, sql, params, read, |_| true)
}

/// Reads rows until the page has its most bytes; the query limits the number of rows.
pub(crate) fn read_page<T: PageRow>(
    connection: &rusqlite::Connection,
    doing: &'static str,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&mut SqliteRow<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut bytes = 0;
    read_while(connection, doing, sql, params, read, |row| {
        bytes += row.data_bytes();
        bytes < MAX_PAGE_BYTES
    })
}

fn read_while<T>(
    connection: &rusqlite::Connection,
    doing: &'static str,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&mut SqliteRow<'_>) -> Result<T>,
    mut goes_on: impl FnMut(&T) -> bool,
) -> Result<Vec<T>> {
    use crate::error::Doing;

    let mut statement = connection.prepare_cached(sql).doing(doing)?;
    let mut rows = statement.query(params).doing(doing)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next().doing(doing)? {
        let record = read(&mut SqliteRow::new(row, doing))?;
        let goes_on = goes_on(&record);
        records.push(record);
        if !goes_on {
            break;
        }
    }
    Ok(records)
}
