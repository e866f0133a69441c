//! The header Retry-After.

use std::time::Duration;

use redrive::{jiff::Timestamp, parse_retry_after};

/// The end of the calendar, seen from any time after 1970.
const LONGEST: Duration = Duration::from_secs(8_100 * 366 * 86_400);

/// Digits are seconds; else it is a date, which comes nearer as time goes by, or no hint.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let now = Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH);
    let hour = Duration::from_secs(3_600);
    let (hint, later) = (parse_retry_after(&text, now), parse_retry_after(&text, now + hour));
    let value = text.trim_matches([' ', '\t']);
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = value.parse().ok().filter(|_| value.len() <= 10);
        assert_eq!(hint, seconds.map(Duration::from_secs), "{value:?}");
        assert_eq!(later, hint, "seconds count from whenever they are heard");
        return;
    }
    assert_eq!(later, hint.map(|hint| hint.saturating_sub(hour)), "{value:?}");
    let Some(hint) = hint else { return };
    assert!(hint <= LONGEST, "{value:?}");
    assert!(value.is_ascii() && (24..=40).contains(&value.len()), "no date: {value:?}");
    let clock = value.matches(':').count();
    assert_eq!(clock, 2, "a date has a time of day: {value:?}");
}
