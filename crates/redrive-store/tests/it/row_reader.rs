//! A stored value that this program does not know is an error with the name of its column.

use jiff::Timestamp;
use redrive_core::{LogicalDate, RunStatus};
use redrive_store::{Error, ReadColumn, Result, RowReader};
use serde_json::{Value, json};

/// A row of JSON values, read from its end.
struct JsonRow {
    values: Vec<Value>,
    text: Option<String>,
}

fn row<const N: usize>(values: [Value; N]) -> JsonRow {
    JsonRow { values: values.into_iter().rev().collect(), text: None }
}

impl<T: serde::de::DeserializeOwned> ReadColumn<T> for JsonRow {
    fn get(&mut self) -> Result<T> {
        Ok(serde_json::from_value(self.values.pop().unwrap()).unwrap())
    }
}

impl RowReader for JsonRow {
    fn doing(&self) -> &'static str {
        "reading runs"
    }

    fn text(&mut self) -> Result<&str> {
        self.text = Some(self.get()?);
        Ok(self.text.as_deref().unwrap())
    }

    fn optional_text(&mut self) -> Result<Option<&str>> {
        self.text = self.get()?;
        Ok(self.text.as_deref())
    }

    fn texts(&mut self, _: &'static str) -> Result<Vec<String>> {
        self.get()
    }

    fn timestamp(&mut self) -> Result<Timestamp> {
        self.get()
    }

    fn optional_timestamp(&mut self) -> Result<Option<Timestamp>> {
        self.get()
    }

    fn date(&mut self, column: &'static str) -> Result<LogicalDate> {
        self.named(column, |day| day.parse().ok())
    }
}

#[test]
fn columns_are_read_in_order() {
    let mut row = row([json!(3), json!(null), json!(4), json!("passed"), json!(null)]);
    assert_eq!(row.count::<u32>("attempts").unwrap(), 3);
    assert_eq!(row.optional_count::<u64>("delay_us").unwrap(), None);
    assert_eq!(row.optional_count::<u64>("asked_us").unwrap(), Some(4));
    assert_eq!(row.named("status", RunStatus::from_name).unwrap(), RunStatus::Passed);
    assert_eq!(row.optional_named("status", RunStatus::from_name).unwrap(), None);
}

#[test]
fn a_number_that_does_not_fit_and_an_unknown_name_are_bad_values() {
    let many = i64::from(u32::MAX) + 1;
    refused(row([json!(-1)]).count::<u64>("attempts"), "attempts", "-1");
    refused(row([json!(many)]).count::<u32>("attempts"), "attempts", "4294967296");
    refused(row([json!(-7)]).optional_count::<u64>("delay_us"), "delay_us", "-7");
    refused(row([json!("done")]).named("status", RunStatus::from_name), "status", "done");
    refused(row([json!("")]).optional_named("status", RunStatus::from_name), "status", "");
}

#[track_caller]
fn refused<T: std::fmt::Debug>(read: Result<T>, in_column: &str, stored: &str) {
    let Err(Error::BadValue { doing, column, value }) = read else { panic!("{read:?}") };
    assert_eq!((doing.as_str(), column, value.as_str()), ("reading runs", in_column, stored));
}
