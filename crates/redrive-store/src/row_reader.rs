//! Reads records from rows, once for every database.
//!
//! The queries of all databases select the columns of a record in one order, and [`FromRow`] reads them in that order.
//! So a new column has one reader, and no reader needs an index.

use jiff::Timestamp;
use redrive_core::LogicalDate;

use crate::{Error, Result};

/// A record that is read from the next columns of a row.
pub trait FromRow: Sized {
    fn from_row(row: &mut impl RowReader) -> Result<Self>;
}

/// Reads the next column of a row as it is stored.
pub trait ReadColumn<T> {
    fn get(&mut self) -> Result<T>;
}

/// A row of a database, whose columns are read one after another.
pub trait RowReader:
    ReadColumn<bool>
    + ReadColumn<i64>
    + ReadColumn<Option<i64>>
    + ReadColumn<String>
    + ReadColumn<Option<String>>
{
    /// What is being tried, for error messages.
    fn doing(&self) -> &'static str;

    /// A text that is compared or parsed, and so not copied.
    fn text(&mut self) -> Result<&str>;

    fn optional_text(&mut self) -> Result<Option<&str>>;

    fn texts(&mut self, column: &'static str) -> Result<Vec<String>>;

    fn timestamp(&mut self) -> Result<Timestamp>;

    fn optional_timestamp(&mut self) -> Result<Option<Timestamp>>;

    fn date(&mut self, column: &'static str) -> Result<LogicalDate>;

    /// A number that must fit its type, which has no negative numbers.
    fn count<T: TryFrom<i64>>(&mut self, column: &'static str) -> Result<T> {
        let number: i64 = self.get()?;
        fitting(self.doing(), column, number)
    }

    fn optional_count<T: TryFrom<i64>>(&mut self, column: &'static str) -> Result<Option<T>> {
        let number: Option<i64> = self.get()?;
        number.map(|number| fitting(self.doing(), column, number)).transpose()
    }

    /// A text with a fixed set of names, or in a fixed form.
    fn named<T>(
        &mut self,
        column: &'static str,
        from_name: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T> {
        let doing = self.doing();
        let name = self.text()?;
        from_name(name).ok_or_else(|| Error::bad_value(doing, column, name))
    }

    fn optional_named<T>(
        &mut self,
        column: &'static str,
        from_name: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let doing = self.doing();
        let Some(name) = self.optional_text()? else { return Ok(None) };
        from_name(name).map(Some).ok_or_else(|| Error::bad_value(doing, column, name))
    }
}

fn fitting<T: TryFrom<i64>>(doing: &str, column: &'static str, number: i64) -> Result<T> {
    T::try_from(number).map_err(|_| Error::bad_value(doing, column, number.to_string()))
}

/// The answer of a query that counts.
impl FromRow for u64 {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        row.count("count")
    }
}
