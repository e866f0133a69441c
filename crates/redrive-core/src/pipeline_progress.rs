//! The progress of a pipeline run: sample counts, the failure budget, and when the run is over
//! (PIP-5, PIP-6).
//!
//! Stores pass every finished sample to [`PipelineProgress::end`] in the transaction that finishes
//! the sample. So the budget is checked after an exact number of samples, and no other code decides
//! about it.

use crate::{BudgetExceeded, PipelineEvent, PipelineRules, PipelineStatus};

/// The samples of a run, by outcome. Every sample that was read is counted in exactly one of
/// succeeded, skipped, dlq and pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleCounts {
    /// Samples read from the source.
    pub total: u64,
    pub succeeded: u64,
    pub skipped: u64,
    /// Dead letters.
    pub dlq: u64,
    /// Whether the whole source was read.
    pub source_done: bool,
}

/// Counts against the failure budget since the run started or was resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetCount {
    /// Samples that ended.
    pub processed: u64,
    /// Samples that failed, without the excluded classes.
    pub failed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleOutcome<'a> {
    Succeeded,
    Skipped,
    /// Dead letter, with the class of the failure.
    Dead(&'a str),
}

/// A change of the run's status.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PipelineStep {
    Concluded(PipelineStatus),
    Aborted(BudgetExceeded),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PipelineProgress {
    pub status: PipelineStatus,
    pub counts: SampleCounts,
    pub budget: BudgetCount,
}

impl SampleCounts {
    pub fn pending(&self) -> u64 {
        self.total.saturating_sub(self.ended())
    }

    pub fn ended(&self) -> u64 {
        self.succeeded.saturating_add(self.skipped).saturating_add(self.dlq)
    }

    /// Whether the source was read and no sample is pending.
    pub fn is_over(&self) -> bool {
        self.source_done && self.pending() == 0
    }

    /// Successes divided by all samples that were not skipped; `None` if there are no such samples.
    pub fn success_rate(&self) -> Option<f64> {
        match self.total.saturating_sub(self.skipped) {
            0 => None,
            asked => Some(self.succeeded as f64 / asked as f64),
        }
    }
}

impl PipelineProgress {
    /// Counts a finished sample. Returns a step if the sample ends or aborts the run.
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

    /// Counts samples that were read. `done` says that the source has no more.
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

    /// Takes a dead letter back and resets the budget.
    pub fn reprocess(&mut self) {
        self.counts.dlq = self.counts.dlq.saturating_sub(1);
        self.budget = BudgetCount::default();
        if let Ok(status) = self.status.apply(PipelineEvent::Reprocess) {
            self.status = status;
        }
    }

    /// Resumes an aborted run and resets the budget. A run without pending samples is over at once.
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
