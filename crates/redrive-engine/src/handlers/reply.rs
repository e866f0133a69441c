//! Parses the reply of a handler: one line of JSON.
//!
//! Programs also print logs, and logs are often JSON. So a line is a reply only if it is an object with
//! `ok`, `skip`, `error` or `verdict`. A line with one of these keys that does not follow the protocol is a
//! [`BadReply`], never a guess: a misspelt verdict that was read as "no reply" would pass a run that the
//! program judged as bad.

use std::{collections::BTreeMap, time::Duration};

use redrive_core::{Class, Code, Failure, HumanDuration, InvalidCode, MAX_DURATION, Message};
use redrive_store::Verdict;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// The longest reply, in bytes.
pub const MAX_REPLY_BYTES: usize = 1024 * 1024;

/// How much of an invalid reply is shown, in characters.
const EXCERPT_CHARS: usize = 200;

const OK: &str = "ok";
const SKIP: &str = "skip";
const ERROR: &str = "error";
const VERDICT: &str = "verdict";

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Ok {
        value: Value,
        /// For runs only.
        verdict: Option<Verdict>,
    },
    /// The handler skipped the unit, for this reason.
    Skip(String),
    Error(ReportedError),
}

/// An error as a handler reports it. Every field is optional.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportedError {
    /// A stated class takes precedence over the class that the code implies.
    pub class: Option<Class>,
    pub code: Option<Code>,
    pub message: Option<String>,
    pub retry_after: Option<Duration>,
}

/// A reply that does not follow the protocol, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid reply: {0}")]
pub struct BadReply(pub String);

impl Reply {
    /// Parses a line. `None` means that the line is no reply.
    ///
    /// ```
    /// use redrive_engine::reply::Reply;
    ///
    /// assert!(matches!(Reply::parse(br#"{"skip": "empty"}"#), Ok(Some(Reply::Skip(_)))));
    /// assert_eq!(Reply::parse(b"42 rows written"), Ok(None));
    /// assert!(Reply::parse(br#"{"ok": 1, "skip": "both"}"#).is_err());
    /// ```
    pub fn parse(line: &[u8]) -> Result<Option<Self>, BadReply> {
        if line.len() > MAX_REPLY_BYTES {
            return Err(BadReply(format!("the line is longer than {MAX_REPLY_BYTES} bytes")));
        }
        let refuse = |problem: String| BadReply(format!("{problem}: {}", excerpt(line)));
        match serde_json::from_slice(line) {
            Ok(Value::Object(object)) => Self::of_object(object).map_err(refuse),
            Ok(_) => Ok(None),
            Err(error) if has_reply_keys(line) => {
                Err(refuse(format!("the JSON cannot be parsed ({error})")))
            }
            Err(_) => Ok(None),
        }
    }

    /// Checks what the kind of unit allows: only samples can be skipped, and a sample needs a reply.
    pub fn allowed_for(kind: &str, reply: Option<Self>) -> Result<Option<Self>, BadReply> {
        let is_sample = kind == "sample";
        match reply {
            Some(Self::Skip(_)) if !is_sample => {
                Err(BadReply(format!("a {kind} cannot be skipped, only a sample can")))
            }
            None if is_sample => {
                Err(BadReply("a sample needs a reply, and there is none".to_owned()))
            }
            reply => Ok(reply),
        }
    }

    pub(crate) fn of_object(mut object: Map<String, Value>) -> Result<Option<Self>, String> {
        let verdict = object.remove(VERDICT);
        let replies = [OK, SKIP, ERROR].map(|key| object.remove(key).map(|value| (key, value)));
        let mut replies = replies.into_iter().flatten();
        let reply = match (replies.next(), replies.next(), verdict) {
            (None, _, None) => return Ok(None),
            (Some((OK, value)), None, verdict) => {
                Self::Ok { value, verdict: verdict.map(read_verdict).transpose()? }
            }
            (_, None, Some(_)) => return Err("a verdict is allowed only beside ok".to_owned()),
            (Some((SKIP, Value::String(why))), None, None) => {
                Self::Skip(Message::clean(&why).as_str().to_owned())
            }
            (Some((SKIP, _)), None, None) => return Err("skip must be a string".to_owned()),
            (Some((_, Value::Object(error))), None, None) => {
                Self::Error(ReportedError::of_object(error)?)
            }
            (Some(_), None, None) => {
                return Err(
                    "error must be an object such as {\"message\": \"no answer\"}".to_owned()
                );
            }
            (_, Some(_), _) => return Err("ok, skip and error exclude each other".to_owned()),
        };
        Ok(Some(reply))
    }
}

impl ReportedError {
    /// The failure that the report describes, with `message` as its text. `otherwise` makes the failure
    /// for a report without a code, such as the failure of the exit code. Without a stated class, a
    /// `retry_after` makes every failure that is not final a rate limit.
    pub fn failure(&self, otherwise: impl FnOnce(&str) -> Failure, message: &str) -> Failure {
        let derived = match &self.code {
            Some(code) => Failure::reported(None, code.clone(), message),
            None => otherwise(message),
        };
        let limited = self.retry_after.filter(|_| derived.class() != Class::Final);
        let implied = limited.map(|hint| Class::RateLimited { retry_after: Some(hint) });
        match self.class.or(implied) {
            Some(class) => Failure::reported(Some(class), derived.code().clone(), message),
            None => derived,
        }
    }

    fn of_object(mut error: Map<String, Value>) -> Result<Self, String> {
        // Many languages write an absent value as null.
        let mut take = |key: &str| error.remove(key).filter(|value| !value.is_null());
        let retry_after = take("retry_after").map(read_retry_after).transpose()?;
        let class = take("class").map(|class| read_class(&class, retry_after)).transpose()?;
        let code = take("code").map(|code| read_code(&code)).transpose()?;
        let message = match take("message") {
            None => None,
            Some(Value::String(message)) => Some(message),
            Some(_) => return Err("message must be a string".to_owned()),
        };
        Ok(Self { class, code, message, retry_after })
    }
}

/// Whether a line that cannot be parsed into a value is still an object with the keys of a reply: with
/// too deep nesting, a number that is too large, or a string that is not Unicode.
fn has_reply_keys(line: &[u8]) -> bool {
    serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(line)
        .is_ok_and(|object| [OK, SKIP, ERROR, VERDICT].iter().any(|key| object.contains_key(*key)))
}

fn read_verdict(verdict: Value) -> Result<Verdict, String> {
    match verdict.as_str() {
        Some("passed") => Ok(Verdict::Passed),
        Some("needs_review") => Ok(Verdict::NeedsReview),
        Some("failed") => Ok(Verdict::Failed),
        _ => Err("verdict must be \"passed\", \"needs_review\" or \"failed\"".to_owned()),
    }
}

fn read_class(class: &Value, retry_after: Option<Duration>) -> Result<Class, String> {
    match class.as_str() {
        Some("final") => Ok(Class::Final),
        Some("retryable") => Ok(Class::Retryable),
        Some("rate_limited") => Ok(Class::RateLimited { retry_after }),
        _ => Err("class must be \"final\", \"retryable\" or \"rate_limited\"".to_owned()),
    }
}

fn read_code(code: &Value) -> Result<Code, String> {
    match code {
        Value::String(text) => text.parse().map_err(|error: InvalidCode| error.to_string()),
        Value::Number(number) => number
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .map(Code::Number)
            .ok_or_else(|| format!("code {number} is neither a status nor an exit code")),
        _ => Err("code must be a number or a name".to_owned()),
    }
}

fn read_retry_after(value: Value) -> Result<Duration, String> {
    let problem =
        || "retry_after must be seconds such as 30, or a string such as \"30s\"".to_owned();
    let wait = match &value {
        Value::Number(seconds) => {
            seconds.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        }
        Value::String(text) => text.parse::<HumanDuration>().ok().map(Duration::from),
        _ => None,
    };
    wait.filter(|wait| *wait <= MAX_DURATION).ok_or_else(problem)
}

/// The beginning of a line, for messages.
pub(crate) fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut excerpt: String = text.chars().take(EXCERPT_CHARS).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    excerpt
}
