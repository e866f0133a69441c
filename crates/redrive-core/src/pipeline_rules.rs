//! When a pipeline run is a success, and how much may fail before it is stopped (PIP-5, PIP-6).

use std::fmt;

use crate::{BudgetCount, PipelineEvent, SampleCounts};

/// The rules a pipeline run is judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineRules {
    /// The share of successes from which a run is `completed`.
    pub completed_at: f64,
    /// The share of successes from which it is `partial_success`.
    pub partial_at: f64,
    /// How much may fail before it is stopped.
    pub budget: FailureBudget,
}

/// How much may fail before a pipeline run is stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureBudget {
    /// The share of failures above which the run is stopped.
    pub rate: f64,
    /// After how many ended samples it is checked.
    pub every: u64,
    /// How many samples must have ended before it is checked at all.
    pub min_samples: u64,
    /// The classes whose failures do not count, by the names under which they are stored.
    pub exclude: Vec<String>,
}

/// A budget that was exceeded. Its text is what the run says when it is stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetExceeded {
    /// The share that failed.
    pub rate: f64,
    /// The share that may.
    pub budget: f64,
    /// How many samples ended.
    pub processed: u64,
    /// How many of them failed, as far as they count.
    pub failed: u64,
}

impl Default for PipelineRules {
    /// Completed from 0.95, partial success from 0.50, with the default budget.
    fn default() -> Self {
        Self { completed_at: 0.95, partial_at: 0.50, budget: FailureBudget::default() }
    }
}

impl PipelineRules {
    /// What the end of a run makes of it. Nothing, or only skips, is a success.
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
    /// One in ten, looked at after every thousand.
    fn default() -> Self {
        Self { rate: 0.10, every: 1_000, min_samples: 0, exclude: Vec::new() }
    }
}

impl FailureBudget {
    /// Whether the failures of a class count.
    pub fn counts(&self, class: &str) -> bool {
        !self.exclude.iter().any(|excluded| excluded == class)
    }

    /// Whether it is time to look at a count, right after it went up by one.
    pub fn is_due(&self, count: BudgetCount) -> bool {
        count.processed >= self.min_samples && count.processed.is_multiple_of(self.every.max(1))
    }

    /// By how much a count exceeds the budget, if it does. Exactly the rate is within it.
    pub fn exceeded(&self, count: BudgetCount) -> Option<BudgetExceeded> {
        let BudgetCount { processed, failed } = count;
        if processed == 0 {
            return None;
        }
        // Both are far below what a float counts exactly, and the quotient is rounded to nearest, so
        // that 100 of 1,000 is the very number that 0.10 is.
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

/// A share in percent, with as many digits as it takes to tell it from its neighbours.
fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}
