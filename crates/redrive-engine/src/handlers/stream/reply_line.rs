//! A line of a program that stays running: which call it answers, and what it says.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use crate::handlers::reply::{BadReply, Reply, excerpt};

/// A line that is a reply.
#[derive(Debug)]
pub(super) struct ReplyLine {
    /// The call, if it says which.
    pub(super) id: Option<String>,
    /// What it says; a reply that fits nothing concerns its call alone.
    pub(super) reply: Result<Reply, BadReply>,
}

/// A line that is no reply. After it, nothing that the program prints can be trusted.
#[derive(Debug)]
pub(super) struct InvalidLine {
    /// The call, if it says which.
    pub(super) id: Option<String>,
    /// What is wrong, with the line itself.
    pub(super) why: String,
}

impl ReplyLine {
    /// Reads a line.
    pub(super) fn parse(line: &[u8]) -> Result<Self, InvalidLine> {
        let invalid = |id: Option<String>, why: &str| {
            Err(InvalidLine { id, why: format!("{why}: {}", excerpt(line)) })
        };
        let mut object = match serde_json::from_slice(line) {
            Ok(Value::Object(object)) => object,
            Ok(_) => return invalid(None, "it is not a JSON object"),
            Err(error) => return invalid(None, &format!("it is not JSON ({error})")),
        };
        let id = match object.remove("id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id),
            Some(_) => return invalid(None, "its id is not a text"),
        };
        match Reply::of_object(object) {
            Ok(None) => invalid(id, "it has none of ok, skip and error"),
            Ok(Some(reply)) => Ok(Self { id, reply: Ok(reply) }),
            Err(problem) => {
                let reply = Err(BadReply(format!("{problem}: {}", excerpt(line))));
                Ok(Self { id, reply })
            }
        }
    }
}

/// A line that is a row: as it was written, so that no number loses a digit.
#[derive(Debug)]
pub(super) struct RowLine<'a> {
    /// The call, if it says which.
    pub(super) id: Option<Cow<'a, str>>,
    /// The row.
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

/// Whether a field is there, be it null.
#[derive(Default)]
struct Present(bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

impl<'a> RowLine<'a> {
    /// Reads a line. One that also ends its call is no row: nobody could tell which comes first.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let WithRow { id, row, ok, skip, error } = serde_json::from_slice(line).ok()?;
        let ends = ok.0 || skip.0 || error.0;
        (!ends).then(|| Self { id, row: row.get() })
    }

    /// Whether a line that is read as a reply has a row as well.
    pub(super) fn is_in(line: &[u8]) -> bool {
        serde_json::from_slice::<WithRow<'_>>(line).is_ok()
    }
}
