//! The Retry-After header (CLS-3).
//!
//! The header is foreign input: other systems have read `-3` as a year. Here any value except whole
//! seconds or an HTTP date is no hint, and a hint is obeyed only up to the policy's `max_hint`.

use std::time::Duration;

use jiff::Timestamp;

/// A longer number is no sensible number of seconds (ten digits are 300 years).
const MAX_DIGITS: usize = 10;

/// Parses a Retry-After value: whole seconds, or an HTTP date in any of its three forms. A date in
/// the past gives zero; any other value gives `None`.
///
/// ```
/// use std::time::Duration;
/// use jiff::Timestamp;
/// use redrive_core::parse_retry_after;
///
/// let now: Timestamp = "2026-01-01T00:00:00Z".parse()?;
/// assert_eq!(parse_retry_after("120", now), Some(Duration::from_secs(120)));
/// assert_eq!(
///     parse_retry_after("Thu, 01 Jan 2026 00:01:00 GMT", now),
///     Some(Duration::from_secs(60)),
/// );
/// assert_eq!(parse_retry_after("-3", now), None);
/// # Ok::<(), jiff::Error>(())
/// ```
pub fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim_matches([' ', '\t']);
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        let seconds = (value.len() <= MAX_DIGITS).then(|| value.parse().ok()).flatten();
        return seconds.map(Duration::from_secs);
    }
    let date = httpdate::parse_http_date(value).ok()?;
    // Not a `Timestamp`: servers send "Fri, 31 Dec 9999 23:59:59 GMT", which is beyond
    // `Timestamp::MAX`.
    Some(date.duration_since(now.into()).unwrap_or(Duration::ZERO))
}
