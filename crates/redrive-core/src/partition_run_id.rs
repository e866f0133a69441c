//! The id of one attempt at a partition and of the raw data that the attempt wrote.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use crate::InvalidUnit;

/// The longest run id, in bytes.
const MAX_RUN_ID_BYTES: usize = 64;

/// A `run_id`: created for one attempt, used once, ordered by time. The id is part of a path, so it
/// has letters, digits and hyphens only.
///
/// ```
/// use redrive_core::PartitionRunId;
///
/// assert!("0198c0de-7a00-7000-8000-000000000001".parse::<PartitionRunId>().is_ok());
/// assert!("../etc".parse::<PartitionRunId>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionRunId(String);

impl PartitionRunId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// When the id was made; `None` if it is not a UUID of version 7.
    pub fn made_at(&self) -> Option<Timestamp> {
        let mut parts = self.0.split('-');
        let milliseconds = format!("{}{}", parts.next()?, parts.next()?);
        parts.next().filter(|part| part.starts_with('7'))?;
        Timestamp::from_millisecond(i64::from_str_radix(&milliseconds, 16).ok()?).ok()
    }
}

impl FromStr for PartitionRunId {
    type Err = InvalidUnit;

    fn from_str(text: &str) -> Result<Self, InvalidUnit> {
        let fits = !text.is_empty() && text.len() <= MAX_RUN_ID_BYTES;
        if fits && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Ok(Self(text.to_owned()));
        }
        let problem = format!("letters, digits and hyphens, at most {MAX_RUN_ID_BYTES}");
        Err(InvalidUnit::new("run_id", text, problem))
    }
}

impl fmt::Display for PartitionRunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
