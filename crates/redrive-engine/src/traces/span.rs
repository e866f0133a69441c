//! A span in the JSON encoding of OTLP.
//!
//! Ids are hexadecimal, 64-bit integers are strings, enums are numbers. Attributes are named `redrive.…`, except
//! for `error.type`, which every backend knows.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::AttemptNumber;
use redrive_store::{AttemptOutcome, UnitKind};
use serde_json::{Value, json};

use super::{TracedAttempt, ids::TraceIds};

/// `SPAN_KIND_INTERNAL`: requests that an attempt makes are spans of the handler.
const INTERNAL: u8 = 1;

/// `STATUS_CODE_ERROR`. A successful attempt has no status, as OpenTelemetry recommends.
const ERROR: u8 = 2;

/// The most characters of a message in a span. The ledger has the whole message.
const MESSAGE_CHARS: usize = 500;

pub(super) fn span(attempt: &TracedAttempt, ids: TraceIds) -> Value {
    let TracedAttempt { unit, place, row, .. } = attempt;
    let kind = UnitKind::from(unit).name();
    let trace = ids.trace(unit).to_string();
    let before = row.attempt.0.checked_sub(1).filter(|before| *before > 0);
    let link = |before| {
        let before = ids.span(unit, AttemptNumber(before)).to_string();
        json!({ "traceId": trace, "spanId": before })
    };
    let links: Vec<Value> = before.map(link).into_iter().collect();
    let status = match row.outcome {
        AttemptOutcome::Success | AttemptOutcome::Skipped => json!({}),
        AttemptOutcome::Retrying | AttemptOutcome::Failed => {
            json!({ "code": ERROR, "message": message(attempt) })
        }
    };
    json!({
        "traceId": trace,
        "spanId": ids.span(unit, row.attempt).to_string(),
        "name": format!("{kind} {place}"),
        "kind": INTERNAL,
        "startTimeUnixNano": nanos(row.started_at),
        "endTimeUnixNano": nanos(row.ended_at),
        "attributes": attributes(attempt),
        "links": links,
        "status": status,
    })
}

fn attributes(attempt: &TracedAttempt) -> Vec<Value> {
    let TracedAttempt { unit, row, details, .. } = attempt;
    let mut attributes = vec![
        text("redrive.kind", UnitKind::from(unit).name()),
        text("redrive.unit", &unit.to_string()),
        whole("redrive.attempt", row.attempt.0.into()),
        text("redrive.outcome", row.outcome.name()),
        json!({ "key": "redrive.counted", "value": { "boolValue": row.counted } }),
        text("redrive.worker", &row.worker),
    ];
    let details = details.iter().map(|(name, value)| text(&format!("redrive.{name}"), value));
    attributes.extend(details);
    let known = [
        ("redrive.run_id", row.run_id.as_deref()),
        ("redrive.class", row.class.as_deref()),
        ("error.type", row.code.as_deref()),
        ("redrive.cause", row.cause.map(|cause| cause.name())),
        ("redrive.fingerprint", row.fingerprint.as_deref()),
    ];
    attributes.extend(known.into_iter().filter_map(|(key, value)| Some(text(key, value?))));
    attributes.extend(row.delay.map(|delay| whole("redrive.delay_ms", millis(delay))));
    attributes
}

fn message(attempt: &TracedAttempt) -> String {
    attempt.row.message.iter().flat_map(|message| message.chars()).take(MESSAGE_CHARS).collect()
}

pub(super) fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn whole(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

fn nanos(at: Timestamp) -> String {
    // No attempt started before 1970.
    at.as_nanosecond().max(0).to_string()
}

fn millis(delay: Duration) -> u64 {
    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)
}
