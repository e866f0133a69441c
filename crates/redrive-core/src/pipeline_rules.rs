//! Rules for the result of a pipeline run, and the failure budget that aborts a run (PIP-5, PIP-6).
//! [`PipelineProgress`](crate::PipelineProgress) applies them.

use std::fmt;

use crate::{BudgetCount, PipelineEvent, SampleCounts};

#[derive(Debug, Clone, PartialEq)]
pub struct PipelineRules {
    /// The success rate from which a run is `completed`.
    pub completed_at: f64,
    /// The success rate from which a run is `partial_success`.
    pub partial_at: f64,
    pub budget: FailureBudget,
}

/// The failure rate that aborts a pipeline run.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureBudget {
    /// The run is aborted above this failure rate.
    pub rate: f64,
    /// The budget is checked each time this many samples have ended.
    pub every: u64,
    /// The budget is not checked before this many samples have ended.
    pub min_samples: u64,
    /// The stored names of the classes whose failures do not count.
    pub exclude: Vec<String>,
}

/// An exceeded budget. The text becomes the stop reason of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetExceeded {
    pub rate: f64,
    pub budget: f64,
    pub processed: u64,
    pub failed: u64,
}

impl Default for PipelineRules {
    /// Completed from 0.95, partial success from 0.50, with the default budget.
    fn default() -> Self {
        Self { completed_at: 0.95, partial_at: 0.50, budget: FailureBudget::default() }
    }
}

impl PipelineRules {
    /// The event that ends a run. A run with no samples, or only skipped ones, is a success.
    ///
    /// ```
    /// use redrive_core::{PipelineEvent, PipelineRules, SampleCounts};
    ///
    /// let counts = SampleCounts { total: 100, succeeded: 95, dlq: 5, ..SampleCounts::default() };
    /// assert_eq!(PipelineRules::default().conclude(&counts), PipelineEvent::Complete);
    /// ```
    pub fn conclude(&self, counts: &SampleCounts) -> PipelineEvent {
        match counts.success_rate() {
            None => PipelineEvent::Complete,
            Some(rate) if rate >= self.completed_at => PipelineEvent::Complete,
            Some(rate) if rate >= self.partial_at => PipelineEvent::SucceedInPart,
            Some(_) => PipelineEvent::Fail,
        }
    }
}

impl Default for FailureBudget {
    /// 10 %, checked after every 1,000 samples.
    fn default() -> Self {
        Self { rate: 0.10, every: Self::default_every(0), min_samples: 0, exclude: Vec::new() }
    }
}

impl FailureBudget {
    /// How often the budget is checked unless somebody says: after every 1,000 samples, or `min_samples` where that is
    /// set and smaller.
    pub fn default_every(min_samples: u64) -> u64 {
        match min_samples {
            1..1_000 => min_samples,
            _ => 1_000,
        }
    }

    /// Whether failures of the class count against the budget.
    pub fn counts(&self, class: &str) -> bool {
        !self.exclude.iter().any(|excluded| excluded == class)
    }

    /// Whether to check the budget now. Call this right after `processed` grew by one.
    pub fn is_due(&self, count: BudgetCount) -> bool {
        count.processed >= self.min_samples && count.processed.is_multiple_of(self.every.max(1))
    }

    /// The excess over the budget, if any. A rate equal to the budget is within it.
    pub fn exceeded(&self, count: BudgetCount) -> Option<BudgetExceeded> {
        let BudgetCount { processed, failed } = count;
        if processed == 0 {
            return None;
        }
        // Both numbers are far below the largest integer that a double holds exactly, and the
        // quotient is rounded to nearest, so 100 of 1,000 equals the literal 0.10.
        let rate = failed as f64 / processed as f64;
        (rate > self.rate).then_some(BudgetExceeded { rate, budget: self.rate, processed, failed })
    }
}

impl fmt::Display for BudgetExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, budget, processed, failed } = self;
        let (rate, budget) = (percent(*rate), percent(*budget));
        write!(
            f,
            "failure rate {rate} exceeds the budget of {budget}: {failed} of {processed} failed"
        )
    }
}

/// A rate in percent, with as many digits as needed to tell neighbouring rates apart.
fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}
