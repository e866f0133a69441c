//! `concurrency`, `timeout`, `lease`, `keep-log` and `success-logs` of a queue, a source or a stage.

use std::time::Duration;

use redrive_core::{MAX_DURATION, Rate};
use redrive_engine::{LogLimits, MAX_LOG_BYTES};

use super::{
    reader::{Section, Value},
    value::{duration_in, parsed, shorten, text, whole},
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
    /// How much of what the handler logs is kept.
    pub log: LogLimits,
}

impl Default for LimitsConfig {
    /// 8 units at once, 5 minutes per attempt, leases of 60 seconds.
    fn default() -> Self {
        Self {
            concurrency: 8,
            timeout: Duration::from_secs(300),
            lease: Duration::from_secs(60),
            log: LogLimits::default(),
        }
    }
}

impl LimitsConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let defaults = Self::default();
        Self {
            concurrency: s.get("concurrency", concurrency()).unwrap_or(defaults.concurrency),
            timeout: s.get("timeout", timeout()).unwrap_or(defaults.timeout),
            lease: s.get("lease", lease()).unwrap_or(defaults.lease),
            log: LogLimits {
                bytes: s.get("keep-log", log_bytes).unwrap_or(defaults.log.bytes),
                successes: s.get("success-logs", success_logs).unwrap_or(defaults.log.successes),
            },
        }
    }
}

/// A size in bytes, KiB or MiB.
fn log_bytes(value: Value<'_>) -> Option<usize> {
    const ALLOWED: &str = "a size such as \"64KiB\", at most \"1MiB\"; \"0\" keeps no logs";
    let written = text(value.clone())?;
    let digits = written.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match written.get(digits.len()..) {
        Some("" | "B") => 1,
        Some("KiB") => 1024,
        Some("MiB") => 1024 * 1024,
        _ => 0,
    };
    let bytes = digits.trim().parse::<usize>().ok().and_then(|count| count.checked_mul(unit));
    match bytes.filter(|bytes| unit > 0 && *bytes <= MAX_LOG_BYTES) {
        Some(bytes) => Some(bytes),
        None => value.refuse(format!("{:?} is not allowed", shorten(&written)), ALLOWED),
    }
}

/// A rate, or all.
fn success_logs(value: Value<'_>) -> Option<Option<Rate>> {
    if text(value.clone())? == "all" { Some(None) } else { parsed(value).map(Some) }
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
