//! Workers, and work that no worker serves.

use jiff::Timestamp;
use redrive_core::{PipelineStatus, RunState};
use redrive_store::{Result, UnitKind, WorkerRecord};

use crate::{
    Ops,
    unserved::{partitions_in_words, runs_in_words, samples_in_words},
    views::{PipelineRunView, QueueStatsView, SourceCountView, UnattendedView, WorkerView},
};

impl Ops {
    /// The processes that work on units; those that started first come first.
    pub async fn workers(&self) -> Result<Vec<WorkerView>> {
        let now = self.store().now();
        let workers = self.store().workers().await?;
        Ok(workers.iter().map(|worker| WorkerView::new(worker, now)).collect())
    }
}

/// Units that could be worked on now and that no present worker serves.
pub(crate) struct Unattended<'a> {
    pub(crate) workers: &'a [WorkerRecord],
    /// The time on the store's clock.
    pub(crate) lease_now: Timestamp,
    pub(crate) now: Timestamp,
}

impl Unattended<'_> {
    pub(crate) fn find(
        &self,
        queues: &[QueueStatsView],
        sources: &[SourceCountView],
        pipeline_runs: &[PipelineRunView],
    ) -> Vec<UnattendedView> {
        let queues = queues.iter().filter_map(|queue| self.queue(queue));
        let sources = sources.iter().filter(|source| source.pending > 0).filter_map(|source| {
            let what = partitions_in_words(source.pending, &source.source);
            self.place(UnitKind::Partition, &source.source, source.pending, what)
        });
        let pipelines = pipeline_runs.iter().filter_map(|run| {
            let is_open = run.status == PipelineStatus::Running;
            let what = samples_in_words(run.pending, run.id, &run.pipeline);
            self.place(UnitKind::Sample, &run.pipeline, run.pending, what).filter(|_| is_open)
        });
        queues.chain(sources).chain(pipelines).collect()
    }

    fn queue(&self, queue: &QueueStatsView) -> Option<UnattendedView> {
        let due = queue.next_due_at.as_ref().and_then(|due| due.parse::<Timestamp>().ok());
        let has_ready = queue.oldest_ready_at.is_some() || due.is_some_and(|due| due <= self.now);
        if !has_ready || queue.paused_at.is_some() {
            return None;
        }
        let waits =
            |state: RunState| matches!(state, RunState::Discovered | RunState::WaitingForRetry);
        let counts = queue.counts.iter().filter(|(state, _)| waits(*state));
        let runs = counts.map(|(_, runs)| runs).sum();
        self.place(UnitKind::Run, &queue.queue, runs, runs_in_words(runs, &queue.queue))
    }

    fn place(
        &self,
        kind: UnitKind,
        name: &str,
        units: u64,
        what: String,
    ) -> Option<UnattendedView> {
        // A pipeline is served by its stages.
        let serves = |place: &str| match place.split_once('/') {
            Some((pipeline, _)) if kind == UnitKind::Sample => pipeline == name,
            _ => place == name,
        };
        let mut present = self.workers.iter().filter(|worker| worker.is_present(self.lease_now));
        let is_served = present.any(|worker| {
            worker.places.iter().any(|place| place.kind == kind && serves(&place.place))
        });
        (!is_served).then(|| UnattendedView::new(kind, name, units, what))
    }
}
