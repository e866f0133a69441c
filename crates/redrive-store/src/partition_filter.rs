//! Partition filters, and the key range that a filter selects.

use redrive_core::{LogicalDate, MAX_KEY_BYTES, PartitionKey, PartitionStatus};
use serde_json::{Map, Value};

/// Selects partitions. Every given field must match exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionFilter {
    pub source: Option<String>,
    pub customer_id: Option<String>,
    pub query_name: Option<String>,
    /// The first day.
    pub since: Option<LogicalDate>,
    /// The last day.
    pub until: Option<LogicalDate>,
    pub status: Option<PartitionStatus>,
}

/// A position in the order of keys. A partition with this key need not exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPlace {
    pub source: String,
    pub customer_id: String,
    pub query_name: String,
    /// `None` sorts before all days.
    pub logical_date: Option<LogicalDate>,
}

impl From<&PartitionKey> for KeyPlace {
    fn from(key: &PartitionKey) -> Self {
        Self {
            source: key.source().to_owned(),
            customer_id: key.customer_id().to_owned(),
            query_name: key.query_name().to_owned(),
            logical_date: Some(key.logical_date()),
        }
    }
}

impl PartitionFilter {
    /// Restricts the filter to one day.
    pub fn on(self, day: LogicalDate) -> Self {
        Self { since: Some(day), until: Some(day), ..self }
    }

    /// Whether the filter selects everything. The status does not count, because commands set it
    /// themselves.
    pub fn is_empty(&self) -> bool {
        self == &Self { status: self.status, ..Self::default() }
    }

    pub fn to_json(&self) -> Value {
        let fields = [
            ("source", self.source.clone()),
            ("customer_id", self.customer_id.clone()),
            ("query_name", self.query_name.clone()),
            ("since", self.since.map(|day| day.to_string())),
            ("until", self.until.map(|day| day.to_string())),
            ("status", self.status.map(|status| status.name().to_owned())),
        ];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Value::Object(
            given.map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>(),
        )
    }

    /// The range of keys that can match: after the first position, up to the second. A given prefix
    /// of the key makes the range short, so that a page does not read the rest of the table.
    pub fn stretch(&self, after: Option<&PartitionKey>) -> (KeyPlace, KeyPlace) {
        let front = [&self.source, &self.customer_id, &self.query_name];
        let given = front.iter().take_while(|part| part.is_some()).count();
        let low =
            |part: usize| front.get(part).filter(|_| part < given).cloned().cloned().flatten();
        let start = KeyPlace {
            source: low(0).unwrap_or_default(),
            customer_id: low(1).unwrap_or_default(),
            query_name: low(2).unwrap_or_default(),
            logical_date: None,
        };
        let high = |part: usize| low(part).unwrap_or_else(above_all);
        let end = KeyPlace {
            source: high(0),
            customer_id: high(1),
            query_name: high(2),
            logical_date: Some(self.until.filter(|_| given == 3).unwrap_or(LogicalDate::MAX)),
        };
        (after.map(KeyPlace::from).into_iter().chain([start.clone()]).max().unwrap_or(start), end)
    }
}

/// A text that sorts after every part of a key in any collation.
fn above_all() -> String {
    "\u{10ffff}".repeat(MAX_KEY_BYTES / 4 + 1)
}
