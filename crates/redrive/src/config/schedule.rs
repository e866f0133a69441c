//! `schedule = { every = "day", … }`: when a source requests new partitions.

use jiff::civil::{Date, Time};

use super::{
    reader::Section,
    value::{date, time_of_day, whole, word},
};

/// Ten years. A longer lag is a mistake.
const MAX_LAG_DAYS: u32 = 3_650;

/// Requests a partition for every day, once the data of the day is expected. Catches up on missed days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleConfig {
    pub every: ScheduleInterval,
    /// The time of day in UTC; default 00:00.
    pub at: Time,
    /// Days between a logical date and its request; default 1.
    pub lag_days: u32,
    /// The first logical date.
    pub start: Date,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleInterval {
    /// One logical date per day.
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
