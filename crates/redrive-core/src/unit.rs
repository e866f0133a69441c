//! Units of work and their text form.
//!
//! `partition:SOURCE/CUSTOMER/QUERY/DATE` with each part percent-encoded, `run:ID`, `item:ID`,
//! `sample:ID/STAGE`. The text form is the key of jitter (POL-4), the name in the journal and the
//! argument of `redrive why`, so two different units never have the same text.

use std::{fmt, str::FromStr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::{ItemId, LogicalDate, RunId, SampleId};

/// The longest part of a key, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 512;

/// Unreserved characters of RFC 3986 stay; all others are encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A unit of work: a partition, a run, an item, or a sample at a stage.
///
/// ```
/// use redrive_core::Unit;
///
/// let unit: Unit = "partition:ads/12%2F34/daily/2026-02-28".parse()?;
/// assert_eq!(unit.to_string(), "partition:ads/12%2F34/daily/2026-02-28");
/// assert!("run:seven".parse::<Unit>().is_err());
/// # Ok::<(), redrive_core::InvalidUnit>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Unit {
    Partition(PartitionKey),
    Run(RunId),
    Item(ItemId),
    Sample { id: SampleId, stage: String },
}

/// The key of a partition: `(source, customer_id, query_name, logical_date)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionKey {
    source: String,
    customer_id: String,
    query_name: String,
    logical_date: LogicalDate,
}

/// A text that is not a unit, or a key with an invalid part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {value:?} is not allowed: {problem}")]
pub struct InvalidUnit {
    pub field: &'static str,
    /// The invalid value, shortened.
    pub value: String,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

impl InvalidUnit {
    pub(crate) fn new(field: &'static str, value: &str, problem: impl Into<String>) -> Self {
        Self { field, value: value.chars().take(80).collect(), problem: problem.into() }
    }
}

impl PartitionKey {
    /// Checks and builds a key. Any text is allowed except an empty text, one that is too long, or
    /// one with a NUL.
    pub fn new(
        source: &str,
        customer_id: &str,
        query_name: &str,
        logical_date: LogicalDate,
    ) -> Result<Self, InvalidUnit> {
        Ok(Self {
            source: key_part("source", source)?,
            customer_id: key_part("customer_id", customer_id)?,
            query_name: key_part("query_name", query_name)?,
            logical_date,
        })
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn customer_id(&self) -> &str {
        &self.customer_id
    }

    pub fn query_name(&self) -> &str {
        &self.query_name
    }

    pub fn logical_date(&self) -> LogicalDate {
        self.logical_date
    }
}

fn key_part(field: &'static str, value: &str) -> Result<String, InvalidUnit> {
    let problem = if value.is_empty() {
        "it must not be empty".to_owned()
    } else if value.contains('\0') {
        "it must not contain a NUL character".to_owned()
    } else if value.len() > MAX_KEY_BYTES {
        format!("it has {} bytes, {MAX_KEY_BYTES} are allowed", value.len())
    } else {
        return Ok(value.to_owned());
    };
    Err(InvalidUnit::new(field, value, problem))
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition(key) => write!(f, "partition:{key}"),
            Self::Run(id) => write!(f, "run:{id}"),
            Self::Item(id) => write!(f, "item:{id}"),
            Self::Sample { id, stage } => {
                write!(f, "sample:{id}/{}", utf8_percent_encode(stage, ENCODED))
            }
        }
    }
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.source, &self.customer_id, &self.query_name] {
            write!(f, "{}/", utf8_percent_encode(part, ENCODED))?;
        }
        self.logical_date.fmt(f)
    }
}

impl FromStr for PartitionKey {
    type Err = InvalidUnit;

    fn from_str(text: &str) -> Result<Self, InvalidUnit> {
        let parts: Vec<&str> = text.split('/').collect();
        let [source, customer_id, query_name, date] = parts.as_slice() else {
            return Err(InvalidUnit::new(
                "partition",
                text,
                "write SOURCE/CUSTOMER/QUERY/DATE; a slash or percent sign within a part is percent-encoded: %2F, %25",
            ));
        };
        Self::new(
            &decode("source", source)?,
            &decode("customer_id", customer_id)?,
            &decode("query_name", query_name)?,
            date.parse()?,
        )
    }
}

fn decode(field: &'static str, part: &str) -> Result<String, InvalidUnit> {
    percent_decode_str(part)
        .decode_utf8()
        .map(|decoded| decoded.into_owned())
        .map_err(|_| InvalidUnit::new(field, part, "its percent-encoding is not UTF-8"))
}

impl FromStr for Unit {
    type Err = InvalidUnit;

    fn from_str(text: &str) -> Result<Self, InvalidUnit> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "partition" => rest.parse().map(Self::Partition),
            "run" => parse_id("run", rest).map(|id| Self::Run(RunId(id))),
            "item" => parse_id("item", rest).map(|id| Self::Item(ItemId(id))),
            "sample" => {
                let (id, stage) = rest
                    .split_once('/')
                    .ok_or_else(|| InvalidUnit::new("sample", rest, "write sample:ID/STAGE"))?;
                let stage = key_part("stage", &decode("stage", stage)?)?;
                Ok(Self::Sample { id: SampleId(parse_id("sample", id)?), stage })
            }
            _ => Err(InvalidUnit::new(
                "unit",
                text,
                "write partition:SOURCE/CUSTOMER/QUERY/DATE, run:ID, item:ID or sample:ID/STAGE",
            )),
        }
    }
}

/// Accepts plain digits only, so that `run:+7` and `run:7` are not two names of one unit.
fn parse_id(field: &'static str, text: &str) -> Result<i64, InvalidUnit> {
    text.parse::<i64>()
        .ok()
        .filter(|id| *id > 0 && text == id.to_string())
        .ok_or_else(|| InvalidUnit::new(field, text, "an id is a whole number from 1"))
}
