//! Keeps samples with their worker from one stage to the next.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_core::{AttemptNumber, Epoch, History, SampleId};
use redrive_store::{
    ClaimedSample, GatePass, LeaseRef, Result, SampleCompletion, SampleFinish, SampleRecord,
    SampleWritten, Store, WorkerId,
};

use crate::worker::{handoff::Handoff, lease_clock::later};
use redrive_retry::monotonic;

/// The loop of the next stage, in the same process.
#[derive(Clone)]
pub(super) struct NextStage {
    pub(super) place: u32,
    pub(super) lease: Duration,
    /// Samples pass gates before the stage, so they must be claimed there.
    pub(super) has_gates: bool,
    pub(super) handoff: Arc<Handoff<ClaimedSample>>,
}

impl NextStage {
    /// The lease end of a sample that is kept for the next stage; `None` if that stage has gates or no free slot.
    pub(super) fn keep_until(&self, held: LeaseRef, now: Timestamp) -> Option<Timestamp> {
        let keeps = !self.has_gates && self.handoff.reserve(next_lease(held));
        keeps.then(|| later(now, self.lease))
    }

    /// Writes results, and hands off the samples that were kept.
    ///
    /// If an answer of the store was lost, the same result is refused when it is written again: the sample has advanced and
    /// is held by this worker under the next epoch. No other writer gives it that epoch at that stage with this worker's
    /// id, because whether to keep a sample is decided once and is part of the result.
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
            self.send_or_free(end, *written, store.now());
        }
        Ok(written)
    }

    /// Whether a sample is held exactly as this result would have kept it.
    fn has_kept(&self, sample: &SampleRecord, end: &SampleFinish) -> bool {
        let held: (Option<&WorkerId>, Epoch) = (sample.lease_owner.as_ref(), sample.lease_epoch);
        sample.id == end.id
            && sample.stage == self.place
            && held == (Some(&end.worker), next(end.epoch))
    }

    /// Sends a kept sample to the reserved slot, or frees the slot.
    fn send_or_free(&self, end: &SampleFinish, written: SampleWritten, now: Timestamp) {
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
                    pass: GatePass::default(),
                };
                // The lease was requested when the attempt ended, and the write may have taken a while.
                let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                let asked_at = monotonic().checked_sub(self.lease.saturating_sub(left));
                self.handoff.send(sample, asked_at.unwrap_or_else(monotonic));
            }
            _ => self.forget(end),
        }
    }

    /// Frees the slot that was reserved for a result which cannot be written.
    pub(super) fn forget(&self, end: &SampleFinish) {
        if end.keep_until.is_some() {
            self.handoff.cancel(next_lease(LeaseRef { id: end.id.0, epoch: end.epoch }));
        }
    }
}

/// The lease under which a sample is kept for the next stage.
fn next_lease(held: LeaseRef) -> LeaseRef {
    LeaseRef { epoch: next(held.epoch), ..held }
}

fn next(epoch: Epoch) -> Epoch {
    Epoch(epoch.0.saturating_add(1))
}
