//! How much of the logs is kept.

use std::{sync::Mutex, time::Duration};

use jiff::Timestamp;
use redrive_core::Rate;

/// The longest log that may be kept.
pub const MAX_LOG_BYTES: usize = 1024 * 1024;

const DEFAULT_BYTES: usize = 64 * 1024;

/// The share of the beginning; the rest is the end, where errors are.
const HEAD_SHARE: usize = 4;

/// How much of the logs of a queue, a source or a stage is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Of one attempt; 0 keeps none.
    pub bytes: usize,
    /// How many attempts that succeeded keep their log, in each process. Attempts that failed always do. `None` keeps all.
    pub successes: Option<Rate>,
}

impl Default for LogLimits {
    /// 64 KiB of each attempt, and 60 successes in a minute.
    fn default() -> Self {
        Self { bytes: DEFAULT_BYTES, successes: "60/min".parse().ok() }
    }
}

impl LogLimits {
    /// The bounds of the beginning and of the end.
    pub(super) fn parts(self) -> (usize, usize) {
        let bytes = self.bytes.min(MAX_LOG_BYTES);
        (bytes / HEAD_SHARE, bytes - bytes / HEAD_SHARE)
    }
}

/// Counts the successes whose logs are kept.
#[derive(Debug, Default)]
pub(super) struct SuccessSample(Mutex<Option<(Timestamp, u32)>>);

impl SuccessSample {
    /// Whether one more is kept: the first ones of each period.
    pub(super) fn takes(&self, rate: Option<Rate>, now: Timestamp) -> bool {
        let Some(rate) = rate else { return true };
        let mut counted = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let current = counted.filter(|(begun, _)| {
            let age = Duration::try_from(now.duration_since(*begun));
            age.is_ok_and(|age| age < rate.period())
        });
        let (begun, taken) = current.unwrap_or((now, 0));
        *counted = Some((begun, taken.saturating_add(1)));
        taken < rate.units()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_successes_the_first_of_each_period_keep_their_logs() {
        let (sample, rate) = (SuccessSample::default(), "2/s".parse().ok());
        let at = |milliseconds| Timestamp::from_millisecond(milliseconds).unwrap();
        let takes = [0, 10, 20, 999, 1_000, 1_001, 1_002].map(|now| sample.takes(rate, at(now)));
        assert_eq!(takes, [true, true, false, false, true, true, false]);
        assert!(sample.takes(None, at(1_003)));
    }
}
