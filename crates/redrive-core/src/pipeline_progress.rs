//! How a pipeline run gets on: what ended so far, and what that means for the run (PIP-5, PIP-6).
//!
//! Stores feed every ended sample through [`PipelineProgress::end`], in the transaction that ends it,
//! so that the budget is looked at after exactly so many samples and nobody else decides about it.

use crate::{BudgetExceeded, PipelineEvent, PipelineRules, PipelineStatus};

/// Where the samples of a run are. Every sample that was read is in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleCounts {
    /// How many were read.
    pub total: u64,
    /// How many are through.
    pub succeeded: u64,
    /// How many were passed over.
    pub skipped: u64,
    /// How many are dead letters.
    pub dlq: u64,
    /// Whether all of the source was read.
    pub source_done: bool,
}

/// What counts against the failure budget, since the run began or was resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetCount {
    /// How many samples ended.
    pub processed: u64,
    /// How many of them failed, excluded classes left out.
    pub failed: u64,
}

/// How a sample ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleOutcome<'a> {
    /// It is through.
    Succeeded,
    /// It was passed over.
    Skipped,
    /// It is a dead letter, with the class of its failure.
    Dead(&'a str),
}

/// What a run comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PipelineStep {
    /// It is over.
    Concluded(PipelineStatus),
    /// It is stopped.
    Aborted(BudgetExceeded),
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PipelineProgress {
    /// Its status.
    pub status: PipelineStatus,
    /// Where its samples are.
    pub counts: SampleCounts,
    /// What counts against its budget.
    pub budget: BudgetCount,
}

impl SampleCounts {
    /// How many have not ended.
    pub fn pending(&self) -> u64 {
        self.total.saturating_sub(self.ended())
    }

    /// How many have ended.
    pub fn ended(&self) -> u64 {
        self.succeeded.saturating_add(self.skipped).saturating_add(self.dlq)
    }

    /// Whether nothing is left to do or to read.
    pub fn is_over(&self) -> bool {
        self.source_done && self.pending() == 0
    }

    /// The share of successes among all that were not passed over; none if that is nothing.
    pub fn success_rate(&self) -> Option<f64> {
        match self.total.saturating_sub(self.skipped) {
            0 => None,
            asked => Some(self.succeeded as f64 / asked as f64),
        }
    }
}

impl PipelineProgress {
    /// Counts a sample that ended, and says whether that stops or ends the run.
    pub fn end(&mut self, rules: &PipelineRules, end: SampleOutcome<'_>) -> Option<PipelineStep> {
        let failed = match end {
            SampleOutcome::Succeeded => {
                self.counts.succeeded += 1;
                false
            }
            SampleOutcome::Skipped => {
                self.counts.skipped += 1;
                false
            }
            SampleOutcome::Dead(class) => {
                self.counts.dlq += 1;
                rules.budget.counts(class)
            }
        };
        self.budget.processed += 1;
        self.budget.failed += u64::from(failed);
        if self.status == PipelineStatus::Running
            && !self.counts.is_over()
            && rules.budget.is_due(self.budget)
            && let Some(exceeded) = rules.budget.exceeded(self.budget)
        {
            self.status = PipelineStatus::Aborted;
            return Some(PipelineStep::Aborted(exceeded));
        }
        self.conclude(rules)
    }

    /// Counts samples that were read, and whether they were the last.
    pub fn read(
        &mut self,
        rules: &PipelineRules,
        samples: u64,
        done: bool,
    ) -> Option<PipelineStep> {
        self.counts.total += samples;
        self.counts.source_done |= done;
        self.conclude(rules)
    }

    /// Takes a dead letter back. The budget counts afresh.
    pub fn reprocess(&mut self) {
        self.counts.dlq = self.counts.dlq.saturating_sub(1);
        self.budget = BudgetCount::default();
        if let Ok(status) = self.status.apply(PipelineEvent::Reprocess) {
            self.status = status;
        }
    }

    /// Goes on with a run that was stopped; its budget counts afresh. A run that has nothing left to
    /// do is over at once.
    pub fn resume(&mut self, rules: &PipelineRules) -> Option<PipelineStep> {
        if let Ok(status) = self.status.apply(PipelineEvent::Resume)
            && self.status != status
        {
            (self.status, self.budget) = (status, BudgetCount::default());
        }
        self.conclude(rules)
    }

    fn conclude(&mut self, rules: &PipelineRules) -> Option<PipelineStep> {
        if self.status != PipelineStatus::Running || !self.counts.is_over() {
            return None;
        }
        self.status = self.status.apply(rules.conclude(&self.counts)).unwrap_or(self.status);
        Some(PipelineStep::Concluded(self.status))
    }
}
