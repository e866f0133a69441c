//! What work of a kind may use: `concurrency`, `timeout`, `lease`.

use std::time::Duration;

use redrive_core::MAX_DURATION;

use super::{
    reader::Section,
    value::{duration_in, whole},
};

/// The most units of one kind that may be worked on at once.
pub(super) const MAX_CONCURRENCY: u32 = 10_000;

/// The shortest time limit; anything shorter is a mistake in the unit.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

/// The shortest lease: it is renewed at a third of its length.
const MIN_LEASE: Duration = Duration::from_secs(1);

/// The longest lease: nobody takes over a lost worker's units before it ends.
const MAX_LEASE: Duration = Duration::from_secs(86_400);

/// The limits of a queue, a source or a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsConfig {
    /// How many units are worked on at once in one process.
    pub concurrency: u32,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How long a unit stays with a worker that gives no sign of life.
    pub lease: Duration,
}

impl Default for LimitsConfig {
    /// 8 at once, 5 minutes each, leases of a minute.
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
