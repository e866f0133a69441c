//! What was counted since the watch began, for machines.

use std::collections::BTreeMap;

use redrive_store::{Activity, LagCount, TIME_BOUNDS_US};

/// Lengths of time, by how many of [`TIME_BOUNDS_US`] they reached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DurationHistogram {
    /// How many reached none, one, two of the bounds, and so on.
    pub counts: [u64; TIME_BOUNDS_US.len() + 1],
    /// All together, in seconds.
    pub seconds: f64,
}

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttemptCounters {
    /// Attempts by kind, outcome and class.
    pub attempts: BTreeMap<(&'static str, &'static str, String), u64>,
    /// How long attempts lasted, by kind.
    pub durations: BTreeMap<&'static str, DurationHistogram>,
    /// How long runs waited for their first attempt.
    pub lags: DurationHistogram,
    /// Attempts that ended because their worker was lost, by kind.
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
            let lengths = self.durations.entry(kind).or_default();
            lengths.add(count.reached, count.attempts, count.took.as_secs_f64());
            if count.lost {
                *self.lost.entry(kind).or_default() += count.attempts;
            }
        }
        for lag in lags {
            self.lags.add(lag.reached, lag.runs, lag.waited.as_secs_f64());
        }
    }
}
