//! A jitter as people write it.

use std::{fmt, str::FromStr, time::Duration};

use redrive_core::{HumanDuration, Jitter};

use super::value::shorten;

/// A jitter as people write it: `none`, `30s`, `25%` or `full`.
///
/// ```
/// use redrive::{Jitter, config::JitterText};
///
/// let jitter: JitterText = "25%".parse().unwrap();
/// assert_eq!(jitter.0, Jitter::Fraction(0.25));
/// assert_eq!(jitter.to_string(), "25%");
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JitterText(pub Jitter);

/// A text that is not a jitter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a jitter: write none, full, a time such as 30s, or a share such as 25%")]
pub struct InvalidJitter(pub String);

impl FromStr for JitterText {
    type Err = InvalidJitter;

    fn from_str(text: &str) -> Result<Self, InvalidJitter> {
        let jitter = match text {
            "none" => Some(Jitter::None),
            "full" => Some(Jitter::Full),
            _ => match text.strip_suffix('%') {
                Some(percent) => finite(percent).map(|percent| Jitter::Fraction(percent / 100.0)),
                None => text
                    .parse::<HumanDuration>()
                    .ok()
                    .map(|time| Jitter::Absolute(Duration::from(time))),
            },
        };
        jitter.map(Self).ok_or_else(|| InvalidJitter(shorten(text)))
    }
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

impl fmt::Display for JitterText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Jitter::None => f.write_str("none"),
            Jitter::Absolute(time) => HumanDuration::from(time).fmt(f),
            // Rounded, for 0.07 × 100 is 7.000000000000001.
            Jitter::Fraction(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
            Jitter::Full => f.write_str("full"),
        }
    }
}
