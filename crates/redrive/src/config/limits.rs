//! `concurrency`, `timeout` and `lease` of a queue, a source or a stage.

use std::time::Duration;

use redrive_core::MAX_DURATION;

use super::{
    reader::Section,
    value::{duration_in, whole},
};

pub(super) const MAX_CONCURRENCY: u32 = 10_000;

/// A shorter timeout is a mistake in the unit of time.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

/// Leases are renewed after a third of their length, so shorter ones would load the store.
const MIN_LEASE: Duration = Duration::from_secs(1);

/// The units of a lost worker are not claimed again before its lease ends.
const MAX_LEASE: Duration = Duration::from_secs(86_400);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Units in progress at once, per process.
    pub concurrency: u32,
    /// Time limit of one attempt.
    pub timeout: Duration,
    /// How long a unit stays claimed by a worker that stops renewing.
    pub lease: Duration,
}

impl Default for LimitsConfig {
    /// 8 units at once, 5 minutes per attempt, leases of 60 seconds.
    fn default() -> Self {
        Self { concurrency: 8, timeout: Duration::from_secs(300), lease: Duration::from_secs(60) }
    }
}

impl LimitsConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let defaults = Self::default();
        Self {
            concurrency: s.get("concurrency", concurrency()).unwrap_or(defaults.concurrency),
            timeout: s.get("timeout", timeout()).unwrap_or(defaults.timeout),
            lease: s.get("lease", lease()).unwrap_or(defaults.lease),
        }
    }
}

pub(super) fn concurrency() -> impl Fn(super::reader::Value<'_>) -> Option<u32> {
    whole(1..=MAX_CONCURRENCY)
}

pub(super) fn timeout() -> impl Fn(super::reader::Value<'_>) -> Option<Duration> {
    duration_in(MIN_TIMEOUT..=MAX_DURATION)
}

pub(super) fn lease() -> impl Fn(super::reader::Value<'_>) -> Option<Duration> {
    duration_in(MIN_LEASE..=MAX_LEASE)
}
