//! The text form of a jitter: `none`, `30s`, `25%` or `full`.
//!
//! ```
//! use redrive_core::Jitter;
//!
//! let jitter: Jitter = "25%".parse().unwrap();
//! assert_eq!(jitter, Jitter::Fraction(0.25));
//! assert_eq!(jitter.to_string(), "25%");
//! ```

use std::{fmt, str::FromStr, time::Duration};

use crate::{HumanDuration, Jitter};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a jitter: write none, full, a time such as 30s, or a share such as 25%")]
pub struct InvalidJitter(pub String);

impl FromStr for Jitter {
    type Err = InvalidJitter;

    fn from_str(text: &str) -> Result<Self, InvalidJitter> {
        let jitter = match text {
            "none" => Some(Self::None),
            "full" => Some(Self::Full),
            _ => match text.strip_suffix('%') {
                Some(percent) => finite(percent).map(|percent| Self::Fraction(percent / 100.0)),
                None => text
                    .parse::<HumanDuration>()
                    .ok()
                    .map(|time| Self::Absolute(Duration::from(time))),
            },
        };
        jitter.ok_or_else(|| InvalidJitter(text.chars().take(80).collect()))
    }
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => f.write_str("none"),
            Self::Absolute(time) => HumanDuration::from(time).fmt(f),
            // Rounded, because 0.07 × 100 is 7.000000000000001.
            Self::Fraction(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
            Self::Full => f.write_str("full"),
        }
    }
}
