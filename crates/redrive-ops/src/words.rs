//! Formats times and durations.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::HumanDuration;
use serde_json::Value;

/// Such as `1h30m`.
pub fn human(duration: Duration) -> String {
    HumanDuration::from(duration).to_string()
}

/// To the second, or below a minute to the millisecond.
pub fn rounded(delay: Duration) -> String {
    if delay < Duration::from_secs(60) && delay.subsec_nanos() != 0 {
        return format!("{:.3}s", delay.as_secs_f64());
    }
    let half = Duration::from_millis(500);
    human(Duration::from_secs(delay.saturating_add(half).as_secs()))
}

/// In the largest unit: `3h`.
pub fn in_largest_unit(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
    let whole = units.iter().find(|(length, _)| seconds >= *length);
    whole.map_or_else(
        || format!("{seconds}s"),
        |(length, unit)| format!("{}{unit}", seconds / length),
    )
}

/// The time from one instant to a later one, to the second, and at least one second.
pub fn apart(from: Timestamp, to: Timestamp) -> String {
    human(Duration::from_secs(between(from, to).as_secs().max(1)))
}

/// The time from one instant to another; zero when the other is not later.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// A JSON number of seconds, an integer for whole seconds.
pub fn seconds(duration: Duration) -> Value {
    let (whole, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if nanos == 0 {
        return whole.into();
    }
    // Parsing gives the nearest float to the decimal; a sum would print as 1.1536355600000001.
    let decimal = format!("{whole}.{nanos:09}");
    decimal.parse().unwrap_or(duration.as_secs_f64()).into()
}

/// A percentage with at most two decimals.
pub fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A word of a shell command, in quotes if it needs them.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@%+,=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Stores hold JSON as text. Invalid JSON becomes a JSON string.
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

pub(crate) fn instant(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| at.to_string())
}
