//! `schedule = { every = "day", … }`: when partitions become due by themselves.

use jiff::civil::{Date, Time};

use super::{
    reader::Section,
    value::{date, time_of_day, whole, word},
};

/// Data that is later than ten years is not late.
const MAX_LAG_DAYS: u32 = 3_650;

/// A partition for every day, made when the day's data should be there. Days that were missed are
/// caught up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleConfig {
    /// How often.
    pub every: ScheduleInterval,
    /// The time of day, in UTC.
    pub at: Time,
    /// How many days after a day its data is asked for.
    pub lag_days: u32,
    /// The first day.
    pub start: Date,
}

/// How often partitions become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleInterval {
    /// Once a day, for one logical date.
    Day,
}

impl ScheduleConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        let every = s.require("every", word(&[("day", ScheduleInterval::Day)]));
        let at = s.get("at", time_of_day);
        let lag_days = s.get("lag-days", whole(0..=MAX_LAG_DAYS));
        let start = s.require("start", date);
        Some(Self {
            every: every?,
            at: at.unwrap_or(Time::midnight()),
            lag_days: lag_days.unwrap_or(1),
            start: start?,
        })
    }
}
