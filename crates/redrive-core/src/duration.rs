//! Durations as people write them: `5m`, `1h30m`, `250ms`, `30d`.
//!
//! A day is 24 hours here: Redrive counts elapsed time, never calendar time. Months and years are
//! refused because they have no fixed length. The parser is jiff's; this type adds the limits and a
//! printer that the parser reads back exactly.

use std::{fmt, str::FromStr, time::Duration};

use jiff::{Span, SpanRelativeTo, fmt::friendly};

/// The longest duration any setting may have: 100 years of 365 days.
pub const MAX_DURATION: Duration = Duration::from_secs(36_500 * 86_400);

/// A duration that prints and parses as people write it.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::HumanDuration;
///
/// let d: HumanDuration = "1h30m".parse()?;
/// assert_eq!(Duration::from(d), Duration::from_secs(5400));
/// assert_eq!(d.to_string(), "1h30m");
/// assert!("90".parse::<HumanDuration>().is_err(), "a unit is required");
/// # Ok::<(), redrive_core::InvalidDuration>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(Duration);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a duration: {problem}")]
pub struct InvalidDuration {
    pub value: String,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

impl From<Duration> for HumanDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<HumanDuration> for Duration {
    fn from(duration: HumanDuration) -> Self {
        duration.0
    }
}

impl FromStr for HumanDuration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        let refuse = |problem: &str| InvalidDuration {
            value: text.chars().take(80).collect(),
            problem: problem.to_owned(),
        };
        const ALLOWED: &str =
            "write a number and a unit, such as 250ms, 30s, 5m, 1h30m or 30d (a day is 24 hours)";
        if text.trim().parse::<f64>().is_ok() {
            return Err(refuse("the unit is missing; write for example 30s, 5m, 2h or 7d"));
        }
        let span: Span =
            friendly::SpanParser::new().parse_span(text.trim()).map_err(|_| refuse(ALLOWED))?;
        if span.get_years() != 0 || span.get_months() != 0 {
            return Err(refuse("months and years have no fixed length; use days, such as 30d"));
        }
        if span.is_negative() {
            return Err(refuse("it must not be negative"));
        }
        let length = span
            .to_duration(SpanRelativeTo::days_are_24_hours())
            .ok()
            .and_then(|signed| Duration::try_from(signed).ok())
            .filter(|length| *length <= MAX_DURATION)
            .ok_or_else(|| refuse("the longest allowed is 36500d"))?;
        Ok(Self(length))
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() {
            return f.write_str("0s");
        }
        let seconds = self.0.as_secs();
        let nanos = self.0.subsec_nanos();
        let parts = [
            (seconds / 86_400, "d"),
            (seconds / 3_600 % 24, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
            (u64::from(nanos / 1_000_000), "ms"),
            (u64::from(nanos / 1_000 % 1_000), "us"),
            (u64::from(nanos % 1_000), "ns"),
        ];
        parts
            .into_iter()
            .filter(|(amount, _)| *amount > 0)
            .try_for_each(|(amount, unit)| write!(f, "{amount}{unit}"))
    }
}
