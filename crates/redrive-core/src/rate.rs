//! How many units in a period.

use std::{fmt, str::FromStr, time::Duration};

/// Units in a second, minute, hour or day: `50/s`, `300/min`, `20/h` or `5/d`.
///
/// ```
/// use redrive_core::Rate;
///
/// let rate: Rate = "50/s".parse()?;
/// assert_eq!(rate.to_string(), "50/s");
/// assert_eq!("60/min".parse::<Rate>()?, "60/m".parse()?);
/// assert!("0/s".parse::<Rate>().is_err());
/// # Ok::<(), redrive_core::InvalidRate>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    units: u32,
    period: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a rate: write units in a second, minute, hour or day, such as 50/s or 300/min"
)]
pub struct InvalidRate(pub String);

const PERIODS: [(&[&str], Duration); 4] = [
    (&["s", "sec"], Duration::from_secs(1)),
    (&["m", "min"], Duration::from_secs(60)),
    (&["h", "hour"], Duration::from_secs(3_600)),
    (&["d", "day"], Duration::from_secs(86_400)),
];

impl Rate {
    pub fn units(self) -> u32 {
        self.units
    }

    /// A second, a minute, an hour or a day.
    pub fn period(self) -> Duration {
        self.period
    }

    pub fn per_second(self) -> f64 {
        f64::from(self.units) / self.period.as_secs_f64()
    }
}

impl FromStr for Rate {
    type Err = InvalidRate;

    fn from_str(text: &str) -> Result<Self, InvalidRate> {
        let rate = text.trim().split_once('/').and_then(|(units, unit)| {
            let units = units.parse().ok().filter(|units| *units > 0)?;
            let (_, period) = PERIODS.into_iter().find(|(names, _)| names.contains(&unit))?;
            Some(Self { units, period })
        });
        rate.ok_or_else(|| InvalidRate(text.chars().take(80).collect()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = PERIODS.iter().find(|(_, period)| *period == self.period);
        let unit = unit.and_then(|(names, _)| names.first());
        write!(f, "{}/{}", self.units, unit.unwrap_or(&"s"))
    }
}
