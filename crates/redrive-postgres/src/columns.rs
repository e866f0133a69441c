//! Conversions between Rust types and PostgreSQL columns.

use std::error::Error as StdError;

use bytes::BytesMut;
use jiff::{Span, Timestamp, Unit, civil::Date};
use redrive_core::LogicalDate;
use redrive_store::{Error, FromRow, ReadColumn, Result, RowReader, TermValue};
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked},
};

/// Microseconds from 1970 to 2000, PostgreSQL's epoch.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A time as it is stored: microseconds, truncated as in every store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Micros(pub(crate) Timestamp);

impl ToSql for Micros {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        (self.0.as_microsecond() - EPOCH_MICROS).to_sql(&Type::INT8, out)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Micros {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let micros = i64::from_sql(&Type::INT8, raw)?;
        // Infinity is stored as the largest number; Redrive never writes it.
        let since_1970 = micros.checked_add(EPOCH_MICROS).ok_or("an infinite time")?;
        Ok(Self(Timestamp::from_microsecond(since_1970)?))
    }

    accepts!(TIMESTAMPTZ);
}

/// A day as it is stored: a number of days since 2000-01-01.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Day {
    /// Before all days: `-infinity`.
    BeforeAll,
    On(LogicalDate),
}

/// PostgreSQL's epoch.
const EPOCH_DAY: Date = Date::constant(2000, 1, 1);

impl ToSql for Day {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        let days = match self {
            Self::BeforeAll => i32::MIN,
            Self::On(day) => EPOCH_DAY.until((Unit::Day, day.date()))?.get_days(),
        };
        days.to_sql(&Type::INT4, out)
    }

    accepts!(DATE);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Day {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let days = i32::from_sql(&Type::INT4, raw)?;
        let date = EPOCH_DAY.checked_add(Span::new().try_days(days)?)?;
        Ok(Self::On(date.try_into()?))
    }

    accepts!(DATE);
}

/// The value of a term of a selection.
#[derive(Debug)]
pub(crate) struct TermParameter(pub(crate) TermValue);

impl ToSql for TermParameter {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match &self.0 {
            TermValue::Text(text) => text.to_sql(kind, out),
            TermValue::Number(number) => number.to_sql(kind, out),
            TermValue::Time(time) => Micros(*time).to_sql(kind, out),
            TermValue::Day(day) => Day::On(*day).to_sql(kind, out),
        }
    }

    accepts!(TEXT, INT8, TIMESTAMPTZ, DATE);
    to_sql_checked!();
}

/// A row whose columns are read in order, so that no reader needs an index.
pub(crate) struct PostgresRow<'a> {
    row: &'a Row,
    next: usize,
    doing: &'static str,
}

impl<'a> PostgresRow<'a> {
    pub(crate) fn new(row: &'a Row, doing: &'static str) -> Self {
        Self { row, next: 0, doing }
    }
}

impl<'a, T: FromSql<'a>> ReadColumn<T> for PostgresRow<'a> {
    fn get(&mut self) -> Result<T> {
        let value = self.row.try_get(self.next);
        self.next += 1;
        value.map_err(|source| crate::error::database(self.doing, source))
    }
}

impl RowReader for PostgresRow<'_> {
    fn doing(&self) -> &'static str {
        self.doing
    }

    fn text(&mut self) -> Result<&str> {
        self.get()
    }

    fn optional_text(&mut self) -> Result<Option<&str>> {
        self.get()
    }

    fn texts(&mut self, _: &'static str) -> Result<Vec<String>> {
        self.get()
    }

    fn timestamp(&mut self) -> Result<Timestamp> {
        self.get().map(|Micros(at)| at)
    }

    fn optional_timestamp(&mut self) -> Result<Option<Timestamp>> {
        let at: Option<Micros> = self.get()?;
        Ok(at.map(|Micros(at)| at))
    }

    fn date(&mut self, column: &'static str) -> Result<LogicalDate> {
        match self.get()? {
            Day::On(day) => Ok(day),
            Day::BeforeAll => Err(Error::bad_value(self.doing, column, "-infinity")),
        }
    }
}

/// Reads rows that are records.
pub(crate) fn read_records<T: FromRow>(rows: &[Row], doing: &'static str) -> Result<Vec<T>> {
    rows.iter().map(|row| T::from_row(&mut PostgresRow::new(row, doing))).collect()
}

pub(crate) fn read_rows<T>(
    rows: &[Row],
    doing: &'static str,
    read: impl Fn(&mut PostgresRow<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    rows.iter().map(|row| read(&mut PostgresRow::new(row, doing))).collect()
}
