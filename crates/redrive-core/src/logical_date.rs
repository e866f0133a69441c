//! Logical dates: the day a partition describes, and ranges of days.
//!
//! A logical date is a label, not an instant: it has no time and no time zone. Years have four
//! digits, so dates sort as text.

use std::{fmt, str::FromStr};

use jiff::{Timestamp, Unit as JiffUnit, civil::Date, tz::TimeZone};

use crate::InvalidUnit;

/// A calendar day from 0001-01-01 to 9999-12-31, written `YYYY-MM-DD`.
///
/// ```
/// use redrive_core::LogicalDate;
///
/// let leap: LogicalDate = "2024-02-29".parse()?;
/// assert_eq!(leap.next().map(|day| day.to_string()).as_deref(), Some("2024-03-01"));
/// assert!("2023-02-29".parse::<LogicalDate>().is_err());
/// assert!("10000-01-01".parse::<LogicalDate>().is_err());
/// # Ok::<(), redrive_core::InvalidUnit>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogicalDate(Date);

/// A range of days, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DateRange {
    since: LogicalDate,
    until: LogicalDate,
}

impl LogicalDate {
    pub const MIN: Self = Self(Date::constant(1, 1, 1));
    pub const MAX: Self = Self(Date::constant(9999, 12, 31));

    pub fn date(self) -> Date {
        self.0
    }

    /// The first moment of the day, in UTC.
    pub fn start(self) -> Timestamp {
        TimeZone::UTC.to_timestamp(self.0.into()).unwrap_or(Timestamp::MAX)
    }

    /// The next day; `None` after 9999-12-31.
    pub fn next(self) -> Option<Self> {
        self.0.tomorrow().ok().map(Self)
    }

    /// The day before; `None` before 0001-01-01.
    pub fn previous(self) -> Option<Self> {
        self.0.yesterday().ok().and_then(|day| Self::try_from(day).ok())
    }

    /// The number of days from this day to `other`; negative if `other` is earlier.
    pub fn days_until(self, other: Self) -> i64 {
        // Both are within four-digit years, where a count of days always exists.
        self.0.until((JiffUnit::Day, other.0)).map_or(0, |span| i64::from(span.get_days()))
    }
}

impl TryFrom<Date> for LogicalDate {
    type Error = InvalidUnit;

    fn try_from(date: Date) -> Result<Self, InvalidUnit> {
        if date.year() < 1 {
            let written = date.to_string();
            return Err(InvalidUnit::new("logical_date", &written, "years run from 0001 to 9999"));
        }
        Ok(Self(date))
    }
}

/// Accepts only `YYYY-MM-DD`: accepting a date with a time or a zone would drop part of the input
/// silently.
impl FromStr for LogicalDate {
    type Err = InvalidUnit;

    fn from_str(text: &str) -> Result<Self, InvalidUnit> {
        let shaped = text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let date: Option<Date> = text.parse().ok().filter(|_| shaped);
        let problem = "there is no such day; write YYYY-MM-DD, from 0001-01-01 to 9999-12-31";
        date.ok_or_else(|| InvalidUnit::new("logical_date", text, problem))?.try_into()
    }
}

impl fmt::Display for LogicalDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl DateRange {
    /// Fails if `until` is earlier than `since`.
    pub fn new(since: LogicalDate, until: LogicalDate) -> Result<Self, InvalidUnit> {
        if since > until {
            let problem = format!("it is after {until}, where the range ends");
            return Err(InvalidUnit::new("since", &since.to_string(), problem));
        }
        Ok(Self { since, until })
    }

    pub fn since(self) -> LogicalDate {
        self.since
    }

    pub fn until(self) -> LogicalDate {
        self.until
    }

    /// At least one.
    pub fn days(self) -> u64 {
        self.since.days_until(self.until).unsigned_abs() + 1
    }

    pub fn iter(self) -> impl Iterator<Item = LogicalDate> {
        std::iter::successors(Some(self.since), |day| day.next())
            .take_while(move |day| *day <= self.until)
    }
}
