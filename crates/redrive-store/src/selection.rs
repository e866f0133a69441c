//! Which units to list or change: one type for all kinds.

use std::fmt;

use jiff::Timestamp;
use redrive_core::{
    ItemStatus, LogicalDate, MAX_KEY_BYTES, PartitionKey, PartitionStatus, PipelineRunId,
    PipelineStatus, RunState, RunStatus, SampleStatus,
};
use serde_json::{Map, Value};

/// Selects units. Every given term must match; texts match exactly, except `error`. A kind ignores the places of
/// other kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    pub queue: Option<String>,
    pub category: Option<String>,
    pub source: Option<String>,
    pub customer_id: Option<String>,
    pub query_name: Option<String>,
    /// The first day.
    pub since: Option<LogicalDate>,
    /// The last day.
    pub until: Option<LogicalDate>,
    pub upload: Option<String>,
    pub group: Option<String>,
    pub pipeline: Option<String>,
    pub run: Option<PipelineRunId>,
    pub stage: Option<String>,
    pub state: Option<StateFilter>,
    /// The class of the last failure. This and the following terms select units that wait or are stuck.
    pub class: Option<String>,
    pub code: Option<String>,
    /// The fingerprint of the last failure.
    pub cause: Option<String>,
    /// A substring of the last error message.
    pub error: Option<String>,
    /// The last failure was at this time or later.
    pub failed_since: Option<Timestamp>,
    /// The last failure was before this time.
    pub failed_until: Option<Timestamp>,
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

/// A term of a selection besides the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectionTerm {
    Queue,
    Category,
    Source,
    CustomerId,
    QueryName,
    /// One day: the first and the last.
    LogicalDate,
    Since,
    Until,
    Upload,
    Group,
    Pipeline,
    Run,
    Stage,
    Class,
    Code,
    Cause,
    Error,
    FailedSince,
    FailedUntil,
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

use SelectionTerm as Term;

impl SelectionTerm {
    pub const ALL: [Self; 19] = [
        Self::Queue,
        Self::Category,
        Self::Source,
        Self::CustomerId,
        Self::QueryName,
        Self::LogicalDate,
        Self::Since,
        Self::Until,
        Self::Upload,
        Self::Group,
        Self::Pipeline,
        Self::Run,
        Self::Stage,
        Self::Class,
        Self::Code,
        Self::Cause,
        Self::Error,
        Self::FailedSince,
        Self::FailedUntil,
    ];

    /// The terms about the last failure of a unit, which all kinds have.
    pub const FAILURE: [Self; 6] =
        [Self::Class, Self::Code, Self::Cause, Self::Error, Self::FailedSince, Self::FailedUntil];

    /// The name in JSON and in queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Category => "category",
            Self::Source => "source",
            Self::CustomerId => "customer_id",
            Self::QueryName => "query_name",
            Self::LogicalDate => "logical_date",
            Self::Since => "since",
            Self::Until => "until",
            Self::Upload => "upload",
            Self::Group => "group",
            Self::Pipeline => "pipeline",
            Self::Run => "run",
            Self::Stage => "stage",
            Self::Class => "class",
            Self::Code => "code",
            Self::Cause => "cause",
            Self::Error => "error",
            Self::FailedSince => "failed_since",
            Self::FailedUntil => "failed_until",
        }
    }
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
            |term: Term| Some((term.name().to_owned(), self.value(term)?.to_string().into()));
        let mut terms: Map<String, Value> = Term::ALL.into_iter().filter_map(given).collect();
        terms.extend(self.status().map(|status| ("status".to_owned(), status.into())));
        terms.extend(self.waiting().map(|waiting| ("waiting".to_owned(), waiting.into())));
        Value::Object(terms)
    }

    pub fn value(&self, term: SelectionTerm) -> Option<TermValue> {
        let text = |value: &Option<String>| value.clone().map(TermValue::Text);
        match term {
            Term::Queue => text(&self.queue),
            Term::Category => text(&self.category),
            Term::Source => text(&self.source),
            Term::CustomerId => text(&self.customer_id),
            Term::QueryName => text(&self.query_name),
            Term::LogicalDate => None,
            Term::Since => self.since.map(TermValue::Day),
            Term::Until => self.until.map(TermValue::Day),
            Term::Upload => text(&self.upload),
            Term::Group => text(&self.group),
            Term::Pipeline => text(&self.pipeline),
            Term::Run => self.run.map(|run| TermValue::Number(run.0)),
            Term::Stage => text(&self.stage),
            Term::Class => text(&self.class),
            Term::Code => text(&self.code),
            Term::Cause => text(&self.cause),
            Term::Error => text(&self.error),
            Term::FailedSince => self.failed_since.map(TermValue::Time),
            Term::FailedUntil => self.failed_until.map(TermValue::Time),
        }
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
