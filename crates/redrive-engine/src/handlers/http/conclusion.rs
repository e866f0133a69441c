//! Makes an outcome of a response.

use std::{borrow::Cow, time::Duration};

use http::{
    HeaderMap, StatusCode,
    header::{CONTENT_ENCODING, DATE, RETRY_AFTER},
};
use jiff::Timestamp;
use redrive_core::{Cause, Class, Code, Failure, HumanDuration, named, parse_retry_after};
use serde_json::Value;

use super::{
    body::{BodyEnd, MAX_BODY_BYTES},
    no_response::error_chain,
    spec::{HttpSpec, ServiceConventions},
};
use crate::{
    Outcome,
    handlers::{
        json_pointer::JsonPointer,
        reply::{MAX_REPLY_BYTES, Reply},
    },
};

/// The code of an error that a reply reports without a code.
const UNNAMED_ERROR: &str = "error";

/// How much of an invalid response is shown, in characters.
const EXCERPT_CHARS: usize = 200;

/// How much of an error's body is logged, in characters.
const MAX_LOGGED_CHARS: usize = 4 * 1024;

/// A response whose text has no secrets.
pub(crate) struct ReceivedResponse<'a> {
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) text: Cow<'a, str>,
    pub(crate) end: BodyEnd,
}

impl ReceivedResponse<'_> {
    /// For the log of the attempt: of an error, the beginning of the body too.
    pub(super) fn in_words(&self) -> String {
        let (status, bytes) = (self.status, self.text.len());
        match status.is_success() || self.text.is_empty() {
            true => format!("{status}, {bytes} bytes"),
            false => {
                let body: String = self.text.chars().take(MAX_LOGGED_CHARS).collect();
                format!("{status}, {bytes} bytes:\n{body}")
            }
        }
    }
}

pub(crate) fn conclude(
    kind: &str,
    answer: ReceivedResponse<'_>,
    spec: &HttpSpec,
    time_limit: Duration,
    now: Timestamp,
) -> Outcome {
    let text = match success_text(answer, &spec.conventions, time_limit, now) {
        Ok(text) => text,
        Err(failure) => return Outcome::Failed(failure),
    };
    let outcome = match &spec.reply {
        Some(pointer) => reply_at(&text, pointer),
        None => whole_body(kind, &text),
    };
    outcome.unwrap_or_else(|problem| Outcome::Failed(bad_reply(&problem)))
}

/// The text of a success, or the failure.
pub(super) fn success_text<'a>(
    answer: ReceivedResponse<'a>,
    conventions: &ServiceConventions,
    time_limit: Duration,
    now: Timestamp,
) -> Result<Cow<'a, str>, Failure> {
    if !answer.status.is_success() {
        return Err(status_failure(&answer, conventions, now));
    }
    match answer.end {
        BodyEnd::Complete => {}
        BodyEnd::Cut(error) => {
            let why = error_chain(&error).last().map(ToString::to_string).unwrap_or_default();
            let what = format!("the connection broke while the response body was read: {why}");
            return Err(Failure::named(named::CUT_BODY, Cause::Handler, &what));
        }
        BodyEnd::TooLong => {
            let what = format!("the response body is longer than {MAX_BODY_BYTES} bytes");
            return Err(Failure::named(named::BODY_TOO_LARGE, Cause::Handler, &what));
        }
        BodyEnd::TimedOut => return Err(timeout_failure(time_limit)),
    }
    match encoding(answer.headers) {
        Some(encoding) => Err(bad_reply(&format!(
            "the response has the content-encoding {encoding}; the request accepts identity only"
        ))),
        None => Ok(answer.text),
    }
}

pub(super) fn bad_reply(problem: &str) -> Failure {
    Failure::named(named::BAD_REPLY, Cause::Handler, problem)
}

pub(crate) fn timeout_failure(time_limit: Duration) -> Failure {
    let limit = HumanDuration::from(time_limit);
    Failure::timeout(&format!("the request took longer than its time limit of {limit}"))
}

/// The status decides about the failure, and what the configuration declares of the service: the error object of an API
/// looks too much like a reply of the handler protocol and means something else. A body that never ends does not
/// change the status.
pub(crate) fn status_failure(
    answer: &ReceivedResponse<'_>,
    conventions: &ServiceConventions,
    now: Timestamp,
) -> Failure {
    let header = |name| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let hint = header(RETRY_AFTER).and_then(|value| parse_retry_after(value, header(DATE), now));
    let status = answer.status;
    let why_not = if status.is_redirection() { "; redirects are not followed" } else { "" };
    let message = match answer.text.trim() {
        "" => format!("the server answered {status}{why_not}"),
        body => format!("the server answered {status}{why_not}\n{body}"),
    };
    let status = status.as_u16();
    let declared = conventions.classes.iter().find(|(known, _)| *known == status);
    let failure = match declared {
        Some((_, Class::RateLimited { .. })) => {
            let class = Class::RateLimited { retry_after: hint };
            Failure::reported(Some(class), Code::Number(status.into()), &message)
        }
        Some((_, class)) => Failure::reported(Some(*class), Code::Number(status.into()), &message),
        None => Failure::http(status, hint, &message),
    };
    let code = conventions.error_code.as_ref().and_then(|place| code_at(&answer.text, place));
    match code {
        Some(code) => failure.with_code(code),
        None => failure,
    }
}

/// The error code in a body; `None` if there is none, or nothing that a code can be.
fn code_at(text: &str, place: &JsonPointer) -> Option<Code> {
    let body: Value = serde_json::from_str(text).ok()?;
    match place.of(&body)? {
        Value::String(code) => code.parse().ok(),
        Value::Number(code) => code.to_string().parse().ok(),
        _ => None,
    }
}

fn encoding(headers: &HeaderMap) -> Option<String> {
    let encoding = headers.get(CONTENT_ENCODING)?;
    (!encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
        .then(|| String::from_utf8_lossy(encoding.as_bytes()).into_owned())
}

/// The configured part of the body is the answer, even if it looks like a reply.
fn reply_at(text: &str, pointer: &JsonPointer) -> Result<Outcome, String> {
    let answer: Value = serde_json::from_str(text)
        .map_err(|error| format!("the response is not JSON ({error}): {}", excerpt(text)))?;
    let value = pointer.of(&answer).cloned();
    let value = value.ok_or_else(|| format!("the response has no {pointer}: {}", excerpt(text)))?;
    Ok(Outcome::Answered { value: Some(value), verdict: None })
}

/// A reply if the body is one. Otherwise the JSON or the text is the answer; an empty body is no answer.
fn whole_body(kind: &str, text: &str) -> Result<Outcome, String> {
    let text = text.trim();
    let reply = if text.len() > MAX_REPLY_BYTES { None } else { parsed(text)? };
    if reply.is_none() && !text.is_empty() {
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        return Ok(Outcome::Answered { value: Some(value), verdict: None });
    }
    Ok(match Reply::allowed_for(kind, reply).map_err(|bad| bad.to_string())? {
        None => Outcome::Answered { value: None, verdict: None },
        Some(Reply::Ok { value, verdict }) => Outcome::Answered { value: Some(value), verdict },
        Some(Reply::Skip(why)) => Outcome::Skipped(why),
        Some(Reply::Error(error)) => {
            let unnamed =
                |message: &str| Failure::reported(None, Code::name(UNNAMED_ERROR), message);
            let silent = "the server reported an error without a message";
            let message = error.message.as_deref().filter(|message| !message.is_empty());
            Outcome::Failed(error.failure(unnamed, message.unwrap_or(silent)))
        }
    })
}

fn parsed(text: &str) -> Result<Option<Reply>, String> {
    Reply::parse(text.as_bytes()).map_err(|bad| bad.to_string())
}

pub(super) fn excerpt(text: &str) -> String {
    let mut excerpt: String = text.chars().take(EXCERPT_CHARS).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    excerpt
}
