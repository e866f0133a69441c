//! Which days of a source should be there by now.

use std::time::Duration;

use jiff::{Timestamp, ToSpan, civil::Time, tz::TimeZone};
use redrive_core::{DateRange, LogicalDate};

/// How many days are what somebody waits for. Older ones, missed or failed, share with backfill, so that
/// history does not hold up the present.
pub(crate) const FRESH_DAYS: i64 = 7;

/// A day's data is asked for at a time of day, so many days later, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyCalendar {
    /// The first day.
    pub start: LogicalDate,
    /// The time of day.
    pub at: Time,
    /// How many days later.
    pub lag_days: u32,
}

impl DailyCalendar {
    /// The days whose data should be there by now, if there are any.
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

    /// How long it is until the next day's time comes.
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
