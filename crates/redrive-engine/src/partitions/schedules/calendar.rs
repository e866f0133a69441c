//! The days of a source that are due at a time.

use std::time::Duration;

use jiff::{Timestamp, ToSpan, civil::Time, tz::TimeZone};
use redrive_core::{DateRange, LogicalDate};

/// Days up to this age use the fresh lane. Older days, missed or failed, use the backfill lane, so that
/// history does not delay recent data.
pub(crate) const FRESH_DAYS: i64 = 7;

/// The data of a day is due `lag_days` later, at a time of day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyCalendar {
    pub start: LogicalDate,
    pub at: Time,
    pub lag_days: u32,
}

impl DailyCalendar {
    /// The days whose data is due, if there are any.
    ///
    /// ```
    /// use jiff::civil::time;
    /// use redrive_engine::DailyCalendar;
    ///
    /// let start = "2026-01-01".parse()?;
    /// let calendar = DailyCalendar { start, at: time(4, 0, 0, 0), lag_days: 1 };
    /// let days = calendar.due("2026-01-03T03:59:59Z".parse()?).unwrap();
    /// assert_eq!((days.since(), days.until()), (start, start));
    /// let days = calendar.due("2026-01-03T04:00:00Z".parse()?).unwrap();
    /// assert_eq!(days.days(), 2);
    /// assert_eq!(calendar.due("2026-01-01T12:00:00Z".parse()?), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn due(&self, now: Timestamp) -> Option<DateRange> {
        let now = now.to_zoned(TimeZone::UTC);
        let latest =
            if now.time() >= self.at { now.date() } else { now.date().yesterday().ok()? };
        let until = latest.checked_sub(i64::from(self.lag_days).days()).ok()?;
        DateRange::new(self.start, until.try_into().ok()?).ok()
    }

    /// The time until the next day becomes due.
    pub(crate) fn until_next(&self, now: Timestamp) -> Duration {
        let here = now.to_zoned(TimeZone::UTC).datetime();
        let days = i64::from(here.time() >= self.at);
        let next = here.date().checked_add(days.days()).ok();
        let next = next.and_then(|day| day.to_datetime(self.at).to_zoned(TimeZone::UTC).ok());
        let wait = next.map(|next| next.timestamp().duration_since(now));
        wait.and_then(|wait| wait.try_into().ok()).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests;
