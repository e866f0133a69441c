//! The Retry-After header (CLS-3).
//!
//! The header is foreign input: other systems have read `-3` as a year. Here any value except whole
//! seconds or an HTTP date is no hint, and a hint is obeyed only up to the policy's `max_hint`.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::{Class, MAX_DURATION};

/// Parses a Retry-After value: whole seconds of any size, or an HTTP date in any of its three
/// forms. A date is compared with the response's own `Date` if that is valid, so that clocks that
/// differ do no harm, and otherwise with `now`. A wait of less than a second, a date in the past
/// and any other value are no hint.
///
/// ```
/// use std::time::Duration;
/// use jiff::Timestamp;
/// use redrive_core::parse_retry_after;
///
/// let now: Timestamp = "2026-01-01T00:00:00Z".parse()?;
/// assert_eq!(parse_retry_after("120", None, now), Some(Duration::from_secs(120)));
/// let (at, date) = ("Thu, 01 Jan 2026 00:01:00 GMT", "Thu, 01 Jan 2026 00:00:40 GMT");
/// assert_eq!(parse_retry_after(at, None, now), Some(Duration::from_secs(60)));
/// assert_eq!(parse_retry_after(at, Some(date), now), Some(Duration::from_secs(20)));
/// assert_eq!(parse_retry_after("-3", None, now), None);
/// # Ok::<(), jiff::Error>(())
/// ```
pub fn parse_retry_after(value: &str, date: Option<&str>, now: Timestamp) -> Option<Duration> {
    let value = value.trim_matches([' ', '\t']);
    let wait = if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        Duration::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        // Not a `Timestamp`: servers send "Fri, 31 Dec 9999 23:59:59 GMT", which is beyond
        // `Timestamp::MAX`.
        let at = httpdate::parse_http_date(value).ok()?;
        let date = date.and_then(|date| httpdate::parse_http_date(date.trim()).ok());
        at.duration_since(date.unwrap_or_else(|| SystemTime::from(now))).ok()?
    };
    Class::RateLimited { retry_after: Some(wait.min(MAX_DURATION)) }.hint()
}
