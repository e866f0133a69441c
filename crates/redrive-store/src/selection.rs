//! Which units to list or change: one type for all kinds.

use std::fmt;

use jiff::Timestamp;
use redrive_core::{
    ItemStatus, LogicalDate, MAX_KEY_BYTES, PartitionKey, PartitionStatus, PipelineRunId,
    PipelineStatus, RunState, RunStatus, SampleStatus,
};
use serde_json::{Map, Value};

use crate::PageOrder;

/// Makes a field of [`Selection`], a [`SelectionTerm`], its name and its value of each line.
macro_rules! terms {
    ($($(#[$doc:meta])* $term:ident, $field:ident: $value:ty;)*) => {
        /// Selects units. Every given term must match; texts match exactly, except `error`. A kind ignores the places
        /// of other kinds.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Selection {
            $($(#[$doc])* pub $field: Option<$value>,)*
            pub state: Option<StateFilter>,
        }

        /// A term of a selection besides the state.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum SelectionTerm {
            $($term,)*
            /// One day: the first and the last.
            LogicalDate,
        }

        impl SelectionTerm {
            pub const FIELDS: &'static [Self] = &[$(Self::$term),*];

            /// The name in JSON and in queries.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$term => stringify!($field),)*
                    Self::LogicalDate => "logical_date",
                }
            }
        }

        impl Selection {
            pub fn value(&self, term: SelectionTerm) -> Option<TermValue> {
                match term {
                    $(Term::$term => self.$field.clone().map(TermValue::from),)*
                    Term::LogicalDate => None,
                }
            }
        }
    };
}

terms! {
    Queue, queue: String;
    Category, category: String;
    Source, source: String;
    CustomerId, customer_id: String;
    QueryName, query_name: String;
    /// The first day.
    Since, since: LogicalDate;
    /// The last day.
    Until, until: LogicalDate;
    Upload, upload: String;
    Group, group: String;
    Pipeline, pipeline: String;
    Run, run: PipelineRunId;
    Stage, stage: String;
    /// The class of the last failure. This and the following terms select units that wait or are stuck.
    Class, class: String;
    Code, code: String;
    /// The fingerprint of the last failure.
    Cause, cause: String;
    /// A substring of the last error message.
    Error, error: String;
    /// The last failure was at this time or later.
    FailedSince, failed_since: Timestamp;
    /// The last failure was before this time.
    FailedUntil, failed_until: Timestamp;
}

/// A status as it is stored and, where a failed unit may or may not be retried by itself, which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateFilter {
    pub status: &'static str,
    pub waiting: Option<bool>,
}

impl StateFilter {
    fn of(status: &'static str) -> Self {
        Self { status, waiting: None }
    }

    /// Whether units in another state, which is known in full, are in this state.
    pub fn is_of(self, known: Self) -> bool {
        self.status == known.status && (self.waiting.is_none() || self.waiting == known.waiting)
    }
}

impl From<RunStatus> for StateFilter {
    fn from(status: RunStatus) -> Self {
        Self::of(status.name())
    }
}

impl From<RunState> for StateFilter {
    fn from(state: RunState) -> Self {
        let waiting = match state {
            RunState::WaitingForRetry => Some(true),
            RunState::GivenUp => Some(false),
            _ => None,
        };
        Self { status: state.status().name(), waiting }
    }
}

impl From<ItemStatus> for StateFilter {
    fn from(status: ItemStatus) -> Self {
        Self::of(status.name())
    }
}

impl From<SampleStatus> for StateFilter {
    fn from(status: SampleStatus) -> Self {
        Self::of(status.name())
    }
}

impl From<PipelineStatus> for StateFilter {
    fn from(status: PipelineStatus) -> Self {
        Self::of(status.name())
    }
}

impl From<PartitionStatus> for StateFilter {
    fn from(status: PartitionStatus) -> Self {
        Self::of(status.name())
    }
}

/// The value of a term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TermValue {
    Text(String),
    Number(i64),
    Time(Timestamp),
    Day(LogicalDate),
}

impl fmt::Display for TermValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Time(time) => time.fmt(f),
            Self::Day(day) => day.fmt(f),
        }
    }
}

impl From<String> for TermValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<PipelineRunId> for TermValue {
    fn from(run: PipelineRunId) -> Self {
        Self::Number(run.0)
    }
}

impl From<Timestamp> for TermValue {
    fn from(time: Timestamp) -> Self {
        Self::Time(time)
    }
}

impl From<LogicalDate> for TermValue {
    fn from(day: LogicalDate) -> Self {
        Self::Day(day)
    }
}

use SelectionTerm as Term;

impl SelectionTerm {
    /// The terms about the last failure of a unit, which all kinds have.
    pub const FAILURE: [Self; 6] =
        [Self::Class, Self::Code, Self::Cause, Self::Error, Self::FailedSince, Self::FailedUntil];
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

impl KeyPlace {
    /// The last position before this one of the same series.
    fn day_before(self) -> Self {
        let date = self.logical_date.and_then(LogicalDate::previous);
        Self { logical_date: date, ..self }
    }
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

impl From<&PartitionKey> for Selection {
    fn from(key: &PartitionKey) -> Self {
        let selection = Self {
            source: Some(key.source().to_owned()),
            customer_id: Some(key.customer_id().to_owned()),
            query_name: Some(key.query_name().to_owned()),
            ..Self::default()
        };
        selection.on(key.logical_date())
    }
}

impl Selection {
    /// Restricts the selection to one day.
    pub fn on(self, day: LogicalDate) -> Self {
        Self { since: Some(day), until: Some(day), ..self }
    }

    /// The key, if all four parts of one are given and nothing else.
    pub fn key(&self) -> Option<PartitionKey> {
        let day = self.since.filter(|day| self.until == Some(*day))?;
        let (source, customer) = (self.source.as_ref()?, self.customer_id.as_ref()?);
        let key = PartitionKey::new(source, customer, self.query_name.as_ref()?, day).ok()?;
        (*self == Self::from(&key)).then_some(key)
    }

    /// Whether the selection takes everything. The state does not count, because commands set it themselves.
    pub fn is_empty(&self) -> bool {
        self == &Self { state: self.state, ..Self::default() }
    }

    pub fn status(&self) -> Option<&'static str> {
        self.state.map(|state| state.status)
    }

    /// Whether a retry must be planned or must not be.
    pub fn waiting(&self) -> Option<bool> {
        self.state.and_then(|state| state.waiting)
    }

    /// The given terms, for the journal.
    pub fn to_json(&self) -> Value {
        let given =
            |term: &Term| Some((term.name().to_owned(), self.value(*term)?.to_string().into()));
        let mut terms: Map<String, Value> = Term::FIELDS.iter().filter_map(given).collect();
        terms.extend(self.status().map(|status| ("status".to_owned(), status.into())));
        terms.extend(self.waiting().map(|waiting| ("waiting".to_owned(), waiting.into())));
        Value::Object(terms)
    }

    /// Whether a term is about the last failure, so that only units match which wait or are stuck.
    pub fn is_about_failures(&self) -> bool {
        Term::FAILURE.iter().any(|term| self.value(*term).is_some())
    }

    /// The range of keys that can match beyond a key: after the first position, up to the second. A given prefix
    /// of the key makes the range short, so that a page does not read the rest of the table.
    pub fn stretch(&self, after: Option<&PartitionKey>, order: PageOrder) -> (KeyPlace, KeyPlace) {
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
        match (after.map(KeyPlace::from), order) {
            (Some(after), PageOrder::Ascending) => (start.max(after), end),
            (Some(before), PageOrder::Descending) => (start, end.min(before.day_before())),
            (None, _) => (start, end),
        }
    }
}

/// A text that sorts after every part of a key in any collation.
fn above_all() -> String {
    "\u{10ffff}".repeat(MAX_KEY_BYTES / 4 + 1)
}
