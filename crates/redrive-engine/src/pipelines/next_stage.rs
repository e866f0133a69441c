//! Samples that stay with their worker from one stage to the next.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_core::{AttemptNumber, Epoch, History, SampleId};
use redrive_store::{
    ClaimedSample, Result, SampleCompletion, SampleFinish, SampleRecord, SampleWritten, Store,
    WorkerId,
};

use crate::worker::{handoff::Handoff, lease_clock::later};
use redrive_retry::monotonic;

/// The loop of the stage that comes next, in the same process.
#[derive(Clone)]
pub(super) struct NextStage {
    pub(super) place: u32,
    pub(super) lease: Duration,
    pub(super) handoff: Arc<Handoff<ClaimedSample>>,
}

impl NextStage {
    /// Until when to keep a sample that is on its way to that stage, if there is a place for it.
    pub(super) fn keep_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.handoff.reserve().then(|| later(now, self.lease))
    }

    /// Writes ends, and hands over what was kept.
    ///
    /// An answer may have been lost, and the end refused when it was written again: then the sample has
    /// gone on, and is ours under the next epoch. Nobody else gives it that epoch at that stage with our
    /// name, because whether to keep it is decided once and stands in the end.
    pub(super) async fn finish(
        &self,
        store: &dyn Store,
        ends: &[SampleFinish],
    ) -> Result<Vec<SampleWritten>> {
        let mut written = store.finish_samples(ends).await?;
        let kept = ends.iter().zip(&mut written).filter(|(end, _)| end.keep_until.is_some());
        let refused: Vec<_> = kept.filter(|(_, it)| **it == SampleWritten::Stale).collect();
        if !refused.is_empty() {
            let ids: Vec<SampleId> = refused.iter().map(|(end, _)| end.id).collect();
            let samples = store.samples_by_id(&ids).await?;
            for (end, written) in refused {
                if samples.iter().any(|sample| self.has_kept(sample, end)) {
                    *written = SampleWritten::Kept;
                }
            }
        }
        for (end, written) in ends.iter().zip(&written) {
            self.settle(end, *written, store.now());
        }
        Ok(written)
    }

    /// Whether a sample is held as the end of an attempt would have it held.
    fn has_kept(&self, sample: &SampleRecord, end: &SampleFinish) -> bool {
        let held: (Option<&WorkerId>, Epoch) = (sample.lease_owner.as_ref(), sample.lease_epoch);
        sample.id == end.id
            && sample.stage == self.place
            && held == (Some(&end.worker), next(end.epoch))
    }

    /// Keeps what was promised to the next stage.
    fn settle(&self, end: &SampleFinish, written: SampleWritten, now: Timestamp) {
        let Some(until) = end.keep_until else { return };
        match (&end.completion, written) {
            (SampleCompletion::Answered(data), SampleWritten::Kept) => {
                let sample = ClaimedSample {
                    id: end.id,
                    run: end.run,
                    data: data.clone(),
                    attempt: AttemptNumber(1),
                    epoch: next(end.epoch),
                    history: History::default(),
                };
                // Its lease was asked for when the attempt ended, and writing that may have taken a while.
                let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                let asked_at = monotonic().checked_sub(self.lease.saturating_sub(left));
                self.handoff.send(sample, asked_at.unwrap_or_else(monotonic));
            }
            _ => self.handoff.cancel(),
        }
    }

    /// Takes back what was promised for an end that cannot be written.
    pub(super) fn forget(&self, end: &SampleFinish) {
        if end.keep_until.is_some() {
            self.handoff.cancel();
        }
    }
}

fn next(epoch: Epoch) -> Epoch {
    Epoch(epoch.0.saturating_add(1))
}
