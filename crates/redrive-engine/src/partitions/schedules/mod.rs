//! Schedules: when the partitions of a day become due, and which days are missing.
//!
//! - `calendar`: the days that are due at a time
//! - `scheduler`: creates the partitions that are due
//! - `gaps`: days that should be accepted and are not

pub(crate) mod calendar;
pub(crate) mod scheduler;

pub(crate) mod gaps;
