//! The header Retry-After.

use std::time::Duration;

use redrive::{jiff::Timestamp, parse_retry_after};

/// A hundred years, the longest wait that a policy can allow.
const LONGEST: Duration = Duration::from_secs(36_500 * 86_400);

/// Digits are seconds; else it is a date, which comes nearer as time goes by, or no hint.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let now = Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH);
    let hour = Duration::from_secs(3_600);
    let (hint, later) =
        (parse_retry_after(&text, None, now), parse_retry_after(&text, None, now + hour));
    let value = text.trim_matches([' ', '\t']);
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = Duration::from_secs(value.parse().unwrap_or(u64::MAX)).min(LONGEST);
        assert_eq!(hint, Some(seconds).filter(|wait| !wait.is_zero()), "{value:?}");
        assert_eq!(later, hint, "seconds count from whenever they are heard");
        return;
    }
    let Some(hint) = hint else { return assert_eq!(later, None, "{value:?}") };
    assert!(hint <= LONGEST && !hint.is_zero(), "{value:?}");
    if hint < LONGEST {
        let nearer = hint.checked_sub(hour).filter(|wait| !wait.is_zero());
        assert_eq!(later, nearer, "{value:?}");
    }
    assert!(value.is_ascii() && (24..=40).contains(&value.len()), "no date: {value:?}");
    let clock = value.matches(':').count();
    assert_eq!(clock, 2, "a date has a time of day: {value:?}");
}
