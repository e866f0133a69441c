//! Conversions between Rust types and SQLite columns.

use jiff::Timestamp;
use redrive_core::LogicalDate;
use redrive_store::{Error, FromRow, MAX_PAGE_BYTES, PageRow, ReadColumn, Result, RowReader};
use rusqlite::{
    Row,
    types::{FromSql, FromSqlError, ValueRef},
};

use crate::error::Doing;

/// Times are stored as microseconds since 1970.
pub(crate) fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// A list of names as one parameter: a JSON array.
pub(crate) fn json_list(names: &[impl AsRef<str>]) -> String {
    serde_json::Value::from_iter(names.iter().map(AsRef::as_ref)).to_string()
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
    fn new(row: &'a Row<'a>, doing: &'static str) -> Self {
        Self { row, next: 0, doing }
    }

    /// The next column without a copy.
    fn borrow<T>(
        &mut self,
        read: impl FnOnce(&ValueRef<'a>) -> Result<T, FromSqlError>,
    ) -> Result<T> {
        let (row, column) = (self.row, self.next);
        self.next += 1;
        let value = row.get_ref(column).doing(self.doing)?;
        let wrong_type = |_| {
            let name = row.as_ref().column_name(column).unwrap_or_default().to_owned();
            rusqlite::Error::InvalidColumnType(column, name, value.data_type())
        };
        read(&value).map_err(wrong_type).doing(self.doing)
    }

    fn to_timestamp(&self, micros: i64) -> Result<Timestamp> {
        Timestamp::from_microsecond(micros)
            .map_err(|_| Error::bad_value(self.doing, "a time", micros.to_string()))
    }
}

impl<T: FromSql> ReadColumn<T> for SqliteRow<'_> {
    fn get(&mut self) -> Result<T> {
        let value = self.row.get(self.next);
        self.next += 1;
        value.doing(self.doing)
    }
}

impl RowReader for SqliteRow<'_> {
    fn doing(&self) -> &'static str {
        self.doing
    }

    fn text(&mut self) -> Result<&str> {
        self.borrow(ValueRef::as_str)
    }

    fn optional_text(&mut self) -> Result<Option<&str>> {
        self.borrow(ValueRef::as_str_or_null)
    }

    fn texts(&mut self, column: &'static str) -> Result<Vec<String>> {
        self.named(column, |list| serde_json::from_str(list).ok())
    }

    fn timestamp(&mut self) -> Result<Timestamp> {
        let micros = self.get()?;
        self.to_timestamp(micros)
    }

    fn optional_timestamp(&mut self) -> Result<Option<Timestamp>> {
        let micros: Option<i64> = self.get()?;
        micros.map(|micros| self.to_timestamp(micros)).transpose()
    }

    fn date(&mut self, column: &'static str) -> Result<LogicalDate> {
        self.named(column, |day| day.parse().ok())
    }
}

/// Runs a query whose rows are records.
pub(crate) fn read_records<T: FromRow>(
    connection: &rusqlite::Connection,
    doing: &'static str,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<T>> {
    read_while(connection, doing, sql, params, |row| T::from_row(row), |_| true)
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

/// Reads records until the page has its most bytes; the query limits the number of rows.
pub(crate) fn read_page<T: FromRow + PageRow>(
    connection: &rusqlite::Connection,
    doing: &'static str,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<T>> {
    let mut bytes = 0;
    let goes_on = |record: &T| {
        bytes += record.data_bytes();
        bytes < MAX_PAGE_BYTES
    };
    read_while(connection, doing, sql, params, |row| T::from_row(row), goes_on)
}

fn read_while<T>(
    connection: &rusqlite::Connection,
    doing: &'static str,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&mut SqliteRow<'_>) -> Result<T>,
    mut goes_on: impl FnMut(&T) -> bool,
) -> Result<Vec<T>> {
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
