//! Parses a line of a program that stays running: a reply to a call, or a row.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use crate::handlers::reply::{BadReply, Reply, excerpt};

#[derive(Debug)]
pub(super) struct ReplyLine {
    pub(super) id: Option<String>,
    /// An invalid reply fails its own call only.
    pub(super) reply: Result<Reply, BadReply>,
}

/// A line that is no reply. The output after it cannot be trusted.
#[derive(Debug)]
pub(super) struct InvalidLine {
    pub(super) id: Option<String>,
    /// The problem, with an excerpt of the line.
    pub(super) problem: String,
}

impl ReplyLine {
    pub(super) fn parse(line: &[u8]) -> Result<Self, InvalidLine> {
        let invalid = |id: Option<String>, why: &str| {
            Err(InvalidLine { id, problem: format!("{why}: {}", excerpt(line)) })
        };
        let mut object = match serde_json::from_slice(line) {
            Ok(Value::Object(object)) => object,
            Ok(_) => return invalid(None, "the line is not a JSON object"),
            Err(_) => {
                let why = "the line is not JSON (stdout is for replies, write messages to stderr)";
                return invalid(None, why);
            }
        };
        let id = match object.remove("id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id),
            Some(_) => return invalid(None, "the id of the line is not a string"),
        };
        match Reply::of_object(object) {
            Ok(None) => invalid(id, "the line has none of ok, skip and error"),
            Ok(Some(reply)) => Ok(Self { id, reply: Ok(reply) }),
            Err(problem) => {
                let reply = Err(BadReply(format!("{problem}: {}", excerpt(line))));
                Ok(Self { id, reply })
            }
        }
    }
}

/// A line with a row. The row is not parsed, so that no number loses a digit.
#[derive(Debug)]
pub(super) struct RowLine<'a> {
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) row: &'a str,
}

#[derive(Deserialize)]
struct WithRow<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    row: &'a RawValue,
    #[serde(default)]
    ok: Present,
    #[serde(default)]
    skip: Present,
    #[serde(default)]
    error: Present,
}

/// Whether a field is present, even with the value null.
#[derive(Default)]
struct Present(bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

impl<'a> RowLine<'a> {
    /// `None` for a line that also completes its call, because the order of the two would be unclear.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let WithRow { id, row, ok, skip, error } = serde_json::from_slice(line).ok()?;
        let ends = ok.0 || skip.0 || error.0;
        (!ends).then(|| Self { id, row: row.get() })
    }

    /// Whether a line that was parsed as a reply also has a row.
    pub(super) fn is_in(line: &[u8]) -> bool {
        serde_json::from_slice::<WithRow<'_>>(line).is_ok()
    }
}
