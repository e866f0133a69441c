//! Which partitions are meant, and where they lie in the order of keys.

use redrive_core::{LogicalDate, MAX_KEY_BYTES, PartitionKey, PartitionStatus};
use serde_json::{Map, Value};

/// Which partitions are meant. Everything given must match exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionFilter {
    /// Of this source.
    pub source: Option<String>,
    /// Of this customer.
    pub customer_id: Option<String>,
    /// Of this query.
    pub query_name: Option<String>,
    /// Not before this day.
    pub since: Option<LogicalDate>,
    /// Not after this day.
    pub until: Option<LogicalDate>,
    /// With this status.
    pub status: Option<PartitionStatus>,
}

/// A place in the order of keys, which need not be the key of anything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPlace {
    /// The source.
    pub source: String,
    /// The customer.
    pub customer_id: String,
    /// The query.
    pub query_name: String,
    /// The day; empty before all days.
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
    /// One day alone.
    pub fn on(self, day: LogicalDate) -> Self {
        Self { since: Some(day), until: Some(day), ..self }
    }

    /// Whether it means everything. A status narrows nothing that a person chose.
    pub fn is_empty(&self) -> bool {
        self == &Self { status: self.status, ..Self::default() }
    }

    /// What was given, for the journal.
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

    /// Between which places of the key order everything lies that can match: after the first, up to the
    /// second. What is given of a key from its front on makes the stretch short, and then a page does
    /// not read the rest of the table.
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

/// A text that comes after every part of a key, however its bytes are compared.
fn above_all() -> String {
    "\u{10ffff}".repeat(MAX_KEY_BYTES / 4 + 1)
}
