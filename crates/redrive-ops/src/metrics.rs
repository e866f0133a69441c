//! Counters of attempts since the start of a [`Watch`](crate::Watch), for Prometheus.

use std::collections::BTreeMap;

use redrive_store::{Activity, LagCount, TIME_BOUNDS_US};

/// Durations in the buckets of [`TIME_BOUNDS_US`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DurationHistogram {
    /// `counts[n]` durations reached exactly `n` of the bounds.
    pub counts: [u64; TIME_BOUNDS_US.len() + 1],
    /// The sum of all durations, in seconds.
    pub seconds: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttemptCounters {
    /// By kind, outcome and class.
    pub attempts: BTreeMap<(&'static str, &'static str, String), u64>,
    /// By kind.
    pub durations: BTreeMap<&'static str, DurationHistogram>,
    /// The waits of runs for their first attempt.
    pub lags: DurationHistogram,
    /// Attempts that ended because their worker lost the lease, by kind.
    pub lost: BTreeMap<&'static str, u64>,
}

impl DurationHistogram {
    fn add(&mut self, reached: u8, count: u64, seconds: f64) {
        if let Some(counted) = self.counts.get_mut(usize::from(reached)) {
            *counted += count;
            self.seconds += seconds;
        }
    }
}

impl AttemptCounters {
    pub(crate) fn record(&mut self, activity: &Activity, lags: &[LagCount]) {
        for count in &activity.counts {
            let (kind, class) = (count.kind.name(), count.class.clone().unwrap_or_default());
            *self.attempts.entry((kind, count.outcome.name(), class)).or_default() +=
                count.attempts;
            let histogram = self.durations.entry(kind).or_default();
            histogram.add(count.reached, count.attempts, count.took.as_secs_f64());
            if count.lost {
                *self.lost.entry(kind).or_default() += count.attempts;
            }
        }
        for lag in lags {
            self.lags.add(lag.reached, lag.runs, lag.waited.as_secs_f64());
        }
    }
}
