//! Parses RFC 3339 instants.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use redrive_core::{HumanDuration, LogicalDate};
use redrive_engine::{Clock, SystemClock};

/// Longer text is not an instant.
const MAX_BYTES: usize = 40;

/// Parses an instant to the microsecond, the precision of the stores. A time without an offset is rejected as
/// ambiguous.
pub fn parse_instant(text: &str) -> Result<Timestamp, String> {
    const ALLOWED: &str = "write an instant such as 2026-01-31T08:00:00Z or \
                           2026-01-31T09:00:00+01:00, up to 9999-12-30T22:00:00Z";
    let shaped = text.len() <= MAX_BYTES
        && text.bytes().take(4).all(|byte| byte.is_ascii_digit())
        && text.as_bytes().get(4) == Some(&b'-')
        && !text.contains('[');
    let parsed = if shaped { text.parse::<Timestamp>().ok() } else { None };
    parsed
        .and_then(|instant| Timestamp::from_microsecond(instant.as_microsecond()).ok())
        .ok_or_else(|| ALLOWED.to_owned())
}

/// Parses an instant, a day, which means its midnight in UTC, or a duration before now such as `2h`.
pub fn parse_past(text: &str) -> Result<Timestamp, String> {
    if let Ok(day) = text.parse::<LogicalDate>() {
        return parse_instant(&format!("{day}T00:00:00Z"));
    }
    let ago = text.parse::<HumanDuration>().ok();
    let ago = ago.and_then(|ago| SignedDuration::try_from(Duration::from(ago)).ok());
    match ago.and_then(|ago| SystemClock.now().checked_sub(ago).ok()) {
        Some(at) => Ok(at),
        None => parse_instant(text).map_err(|allowed| {
            format!("{allowed}, a day such as 2026-01-31, or how long ago, such as 2h or 30d")
        }),
    }
}
