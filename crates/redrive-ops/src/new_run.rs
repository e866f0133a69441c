//! Parses one line of a submission: `{"queue", "category", "payload", "submitted_at", "not_before",
//! "idempotency_key", "allow_unknown"}`, all optional but the queue.

use jiff::Timestamp;
use redrive_core::Message;
use redrive_store::NewRun;
use serde::Deserialize;
use serde_json::Value;

use crate::{Declarations, UndeclaredName, instant::parse_instant};

/// The longest reason, in characters: a reason may quote the line.
const REASON_CHARS: usize = 300;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFields {
    #[serde(default)]
    queue: Option<String>,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    payload: Value,
    #[serde(default)]
    submitted_at: Option<String>,
    #[serde(default)]
    not_before: Option<String>,
    #[serde(default)]
    idempotency_key: Option<String>,
    /// The queue is intended, even if the configuration does not declare it.
    #[serde(default)]
    allow_unknown: bool,
}

/// Why a line is not a run: one line of text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct RunRefusal {
    reason: String,
    /// Whether the line is right but for a name that the configuration does not declare.
    pub is_undeclared: bool,
}

impl From<String> for RunRefusal {
    fn from(reason: String) -> Self {
        Self { reason: one_line(&reason), is_undeclared: false }
    }
}

impl From<UndeclaredName> for RunRefusal {
    fn from(unknown: UndeclaredName) -> Self {
        let reason = format!("{unknown} (\"allow_unknown\": true says that the name is intended)");
        Self { is_undeclared: true, ..reason.into() }
    }
}

/// With declarations, the run must name a declared queue or allow an unknown one.
pub fn read_run(
    line: &[u8],
    default_queue: Option<&str>,
    declared: Option<&Declarations>,
    now: Timestamp,
) -> Result<NewRun, RunRefusal> {
    // serde would read an array as the fields in order.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err("not a JSON object".to_owned().into());
    }
    let fields: RunFields = serde_json::from_slice(line).map_err(|error| in_line(&error))?;
    let queue = fields.queue.as_deref().or(default_queue);
    let queue =
        queue.ok_or_else(|| "the run names no queue, and --queue is not given".to_owned())?;
    let submitted_at = instant("submitted_at", fields.submitted_at.as_deref())?.unwrap_or(now);
    let not_before = instant("not_before", fields.not_before.as_deref())?;
    let new = || {
        let mut run = NewRun::new(queue, &fields.payload, submitted_at)?;
        if let Some(category) = &fields.category {
            run = run.with_category(category)?;
        }
        if let Some(key) = &fields.idempotency_key {
            run = run.with_idempotency_key(key)?;
        }
        Ok(run)
    };
    let run = new().map_err(|error: redrive_store::InvalidRun| error.to_string())?;
    if let Some(declared) = declared.filter(|_| !fields.allow_unknown) {
        declared.expect_queue(queue)?;
    }
    Ok(match not_before {
        Some(at) => run.with_not_before(at),
        None => run,
    })
}

fn instant(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, String> {
    let read = |text| {
        parse_instant(text)
            .map_err(|allowed| format!("{field} {text:?} is not an instant: {allowed}"))
    };
    text.map(read).transpose()
}

/// The parser numbers lines within the line, so only the column is useful.
fn in_line(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    match text.strip_suffix(&place) {
        Some(problem) => format!("{problem} (column {})", error.column()),
        None => text,
    }
}

/// One bounded line, although a field name that the reason quotes may have line breaks.
fn one_line(reason: &str) -> String {
    let line = Message::clean(reason).as_str().replace('\n', "\\n").replace('\t', "\\t");
    let mut short: String = line.chars().take(REASON_CHARS).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_at_epoch(line: &str) -> Result<NewRun, String> {
        let read = read_run(line.as_bytes(), Some("q"), None, Timestamp::UNIX_EPOCH);
        read.map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn what_a_line_leaves_out_has_a_default() {
        let run = read_at_epoch(" {} \r").unwrap();
        assert_eq!((run.queue(), run.category(), run.payload()), ("q", "", "null"));
        assert_eq!((run.submitted_at(), run.not_before()), (Timestamp::UNIX_EPOCH, None));
        let run =
            read_at_epoch(r#"{"queue": "other", "category": null, "payload": {"b": 1, "a": 2}}"#);
        let run = run.unwrap();
        assert_eq!((run.queue(), run.payload()), ("other", r#"{"a":2,"b":1}"#));
    }

    #[test]
    fn every_wrong_line_is_refused_with_its_reason() {
        let cases = [
            ("", "not a JSON object"),
            ("7", "not a JSON object"),
            (r#"["q"]"#, "not a JSON object"),
            ("{", "EOF while parsing an object (column 1)"),
            ("{} {}", "trailing characters (column 4)"),
            (r#"{"queue": 7}"#, "invalid type: integer `7`, expected a string (column 11)"),
            (r#"{"qeue": "q"}"#, "unknown field `qeue`, expected one of `queue`"),
            (r#"{"queue": "a", "queue": "b"}"#, "duplicate field `queue`"),
            (r#"{"queue": ""}"#, "queue is not allowed: it must not be empty"),
            (r#"{"queue": "a\u0000"}"#, "queue is not allowed: it must not contain a NUL"),
            (r#"{"category": "a\u0000"}"#, "category is not allowed"),
            (r#"{"idempotency_key": ""}"#, "idempotency_key is not allowed"),
            (r#"{"payload": "\ud800"}"#, "(column "),
            (r#"{"submitted_at": 5}"#, "invalid type: integer"),
            (r#"{"submitted_at": "yesterday"}"#, "submitted_at \"yesterday\" is not an instant"),
            (r#"{"not_before": "2026-01-01T00:00:00"}"#, "not_before"),
            (r#"{"not_before": "2026-02-30T00:00:00Z"}"#, "not_before"),
        ];
        for (line, reason) in cases {
            let refused = read_at_epoch(line).expect_err(line);
            assert!(refused.contains(reason), "{line}: {refused}");
        }
        let refused = read_run(b"{}", None, None, Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(refused.to_string(), "the run names no queue, and --queue is not given");
    }

    #[test]
    fn a_reason_cannot_move_a_cursor() {
        for name in ["\\u001b[2Jqueue", "\\nqueue", "queue\\t"] {
            let refused = read_at_epoch(&format!("{{\"{name}\": 1}}")).unwrap_err();
            assert!(!refused.chars().any(char::is_control), "{refused:?}");
        }
    }

    #[test]
    fn a_reason_never_repeats_the_whole_line() {
        let line = format!("{{\"{}\": 1}}", "x".repeat(100_000));
        assert!(read_at_epoch(&line).unwrap_err().chars().count() <= REASON_CHARS + 1);
    }
}
