//! Schedules: when partitions become due, and which are missing.
//!
//! - `calendar`: the times of a schedule
//! - `scheduler`: creates the partitions that are due
//! - `gaps`: partitions that should exist and do not

pub(crate) mod calendar;
pub(crate) mod gaps;
pub(crate) mod scheduler;
