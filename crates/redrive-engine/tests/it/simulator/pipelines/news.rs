//! What happens to samples, as the store and the stages themselves see it.

use redrive_core::{Cause, PipelineStatus};
use redrive_store::{
    ClaimedSample, LeaseRef, NewSample, PipelineRunRecord, SampleCompletion, SampleFinish,
    SampleWritten,
};

use super::super::log::How;

/// What happened to a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SampleNews {
    /// The store was given samples of a run; and so many were unfinished afterwards, if it took them.
    Appended { run: i64, samples: usize, pending: Option<u64> },
    /// The store gave a sample to a worker.
    Claimed { sample: i64, stage: u32, epoch: i64, attempt: u32, running: bool },
    /// The store was asked to end an attempt; by the holder, or because the holder was lost.
    Finished { sample: i64, stage: u32, attempt: u32, lost: bool, written: SampleWritten },
    /// The store left a sample with who ended its attempt, for the next stage.
    Kept { sample: i64, running: bool },
    /// A stage began an attempt, while so many ran on this worker.
    Began { execution: usize, sample: i64, stage: String, attempt: u32, running: usize, held: bool },
    /// An attempt of a stage is over.
    Ended { execution: usize, how: How },
}

impl SampleNews {
    pub(crate) fn appended(
        feed: LeaseRef,
        samples: &[NewSample],
        run: Option<&PipelineRunRecord>,
    ) -> Self {
        let pending = run.map(|run| run.progress.counts.pending());
        Self::Appended { run: feed.id, samples: samples.len(), pending }
    }

    pub(crate) fn claimed(stage: u32, sample: &ClaimedSample, run: &PipelineRunRecord) -> Self {
        Self::Claimed {
            sample: sample.id.0,
            stage,
            epoch: sample.epoch.0,
            attempt: sample.attempt.0,
            running: run.progress.status == PipelineStatus::Running,
        }
    }

    pub(crate) fn kept(finish: &SampleFinish, run: &PipelineRunRecord) -> Self {
        let running = run.progress.status == PipelineStatus::Running;
        Self::Kept { sample: finish.id.0, running }
    }

    pub(crate) fn finished(finish: &SampleFinish, written: SampleWritten) -> Self {
        let lost = match &finish.completion {
            SampleCompletion::Failed { failure, .. } => failure.cause() == Cause::LostWorker,
            SampleCompletion::Answered(_) | SampleCompletion::Skipped(_) => false,
        };
        let (stage, attempt) = (finish.stage, finish.attempt.0);
        Self::Finished { sample: finish.id.0, stage, attempt, lost, written }
    }
}
