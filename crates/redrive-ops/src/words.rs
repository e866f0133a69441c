//! Times and lengths of time in words and in numbers.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::HumanDuration;
use serde_json::Value;

/// A length of time as people write it: `1h30m`.
pub fn human(duration: Duration) -> String {
    HumanDuration::from(duration).to_string()
}

/// A length of time as people read it: to the second, and less than a minute to the millisecond.
pub fn rounded(delay: Duration) -> String {
    if delay < Duration::from_secs(60) && delay.subsec_nanos() != 0 {
        return format!("{:.3}s", delay.as_secs_f64());
    }
    let half = Duration::from_millis(500);
    human(Duration::from_secs(delay.saturating_add(half).as_secs()))
}

/// How long it is from one time to a later one, to the second, and never nothing.
pub fn apart(from: Timestamp, to: Timestamp) -> String {
    human(Duration::from_secs(between(from, to).as_secs().max(1)))
}

/// How long it is from one time to a later one; nothing, if it is not later.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// A duration as a JSON number of seconds, whole where it is whole.
pub fn seconds(duration: Duration) -> Value {
    let (whole, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if nanos == 0 {
        return whole.into();
    }
    // The nearest number to the decimal; a sum of two would print as 1.1536355600000001.
    let decimal = format!("{whole}.{nanos:09}");
    decimal.parse().unwrap_or(duration.as_secs_f64()).into()
}

/// A share in percent, to two digits after the point at most.
pub fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Stores hold JSON as text. What cannot be read back is shown as the text it is.
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// An instant as it is shown.
pub(crate) fn instant(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| at.to_string())
}
