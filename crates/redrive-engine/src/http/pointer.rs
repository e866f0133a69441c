//! JSON pointers (RFC 6901).

use std::{fmt, str::FromStr};

use serde_json::Value;

/// Where a value stands in a JSON document: empty for the whole, or `/` before every step; `~` only as
/// `~0` for itself and `~1` for a slash.
///
/// ```
/// use redrive_engine::JsonPointer;
///
/// let pointer: JsonPointer = "/choices/0/message".parse()?;
/// let answer = serde_json::json!({"choices": [{"message": "hello"}]});
/// assert_eq!(pointer.of(&answer), Some(&"hello".into()));
/// assert!("choices".parse::<JsonPointer>().is_err());
/// # Ok::<(), redrive_engine::InvalidPointer>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct JsonPointer(String);

/// A text that is no JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a JSON pointer: write /key/0/key; ~1 stands for / and ~0 for ~")]
pub struct InvalidPointer(pub String);

impl JsonPointer {
    /// The value it points to.
    pub fn of<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        document.pointer(&self.0)
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for JsonPointer {
    type Err = InvalidPointer;

    fn from_str(text: &str) -> Result<Self, InvalidPointer> {
        let begins_well = text.is_empty() || text.starts_with('/');
        if begins_well && text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1'])) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidPointer(text.chars().take(80).collect()))
        }
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
