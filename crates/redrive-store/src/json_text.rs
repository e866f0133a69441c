//! JSON that is stored as text, in JSON: as it is, so that no number loses a digit and nothing is parsed.

use serde::{Serialize, Serializer, ser::Error};
use serde_json::value::RawValue;

pub(crate) fn json_text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let raw: &RawValue = serde_json::from_str(text).map_err(S::Error::custom)?;
    raw.serialize(serializer)
}

pub(crate) fn optional_json_text<S: Serializer>(
    text: &Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    json_text(text.as_deref().unwrap_or("null"), serializer)
}

/// Whether there is nothing to show: none, or it was not read.
pub(crate) fn is_unread(text: &Option<String>) -> bool {
    text.as_deref().is_none_or(str::is_empty)
}
