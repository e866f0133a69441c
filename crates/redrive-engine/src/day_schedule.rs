//! When the days of a source become due by themselves, in UTC.

use std::time::Duration;

use jiff::{Span, Timestamp, ToSpan, civil::Time, tz::TimeZone};
use redrive_core::LogicalDate;

/// A partition for every day, customer and query, made when the day's data should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaySchedule {
    /// Whose data is extracted.
    pub customers: Vec<String>,
    /// Which queries are extracted.
    pub queries: Vec<String>,
    /// The time of day, in UTC.
    pub at: Time,
    /// How many days after a day its data is asked for.
    pub lag_days: u32,
    /// The first day.
    pub start: LogicalDate,
}

impl DaySchedule {
    /// The last day whose time has come; none before the first.
    ///
    /// ```
    /// use jiff::civil::time;
    /// use redrive_engine::DaySchedule;
    ///
    /// let daily = DaySchedule {
    ///     customers: vec!["1234".to_owned()],
    ///     queries: vec!["daily".to_owned()],
    ///     at: time(4, 0, 0, 0),
    ///     lag_days: 1,
    ///     start: "2026-01-01".parse()?,
    /// };
    /// assert_eq!(daily.last_due("2026-03-01T03:59:59Z".parse()?), Some("2026-02-27".parse()?));
    /// assert_eq!(daily.last_due("2026-03-01T04:00:00Z".parse()?), Some("2026-02-28".parse()?));
    /// assert_eq!(daily.last_due("2026-01-02T03:59:59Z".parse()?), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn last_due(&self, now: Timestamp) -> Option<LogicalDate> {
        let now = now.to_zoned(TimeZone::UTC).datetime();
        let waiting = i64::from(self.lag_days) + i64::from(now.time() < self.at);
        let day = now.date().checked_sub(Span::new().days(waiting)).ok()?;
        LogicalDate::try_from(day).ok().filter(|day| *day >= self.start)
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
