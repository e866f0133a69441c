//! The sources of pipeline runs, as work for the worker loop.
//!
//! Reading a source is not an attempt at a unit, so nothing of it is in the ledger. It shares the lease with units: one
//! worker reads a source at a time, and another continues when that worker is lost.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{Failure, PipelineRunId};
use redrive_retry::Stop;
use redrive_store::{
    Backlog, ExpiredLease, LeaseRef, Leased, PipelineRunRecord, Result, SourceClaim, SourceFinish,
    WorkerId, Written,
};

use super::{Pipeline, SampleWriter, SourceCall, SourceEnd, stage_work::backlog_of_one};
use crate::worker::{
    unit_leases::{StoreLeases, UnitLeases, WorkContext},
    work::{Completion, Work, WorkerLimits},
};

/// Sources of one pipeline that a worker reads at once.
const CONCURRENCY: usize = 4;

/// The lease on a source, unless a stage has a shorter one.
const LEASE: Duration = Duration::from_secs(30);

/// How long a source is read after the stop signal. Another worker can continue at any line, and stages that stop take no
/// more samples.
const GRACE: Duration = Duration::from_millis(500);

/// Reads the sources of the runs of a pipeline.
pub(crate) struct SourceReader {
    pipeline: Pipeline,
    context: WorkContext,
    leases: StoreLeases,
}

impl From<Failure> for SourceEnd {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl SourceReader {
    pub(crate) fn new(pipeline: Pipeline, context: &WorkContext) -> Self {
        Self { pipeline, context: context.clone(), leases: context.leases(Leased::Feed) }
    }

    fn finish_of(
        &self,
        lease: LeaseRef,
        failure: Option<Failure>,
        worker: &WorkerId,
    ) -> SourceFinish {
        SourceFinish { lease, failure, at: self.context.clock.now(), worker: worker.clone() }
    }
}

#[async_trait]
impl Work for SourceReader {
    type Unit = (LeaseRef, PipelineRunRecord);
    type Outcome = SourceEnd;
    type Finish = SourceFinish;

    fn name(&self) -> &str {
        &self.pipeline.name
    }

    fn limits(&self) -> WorkerLimits {
        let leases = self.pipeline.stages.iter().map(|stage| stage.limits.lease);
        let lease = leases.min().unwrap_or(LEASE).min(LEASE);
        WorkerLimits { concurrency: CONCURRENCY, lease, grace: GRACE, ..WorkerLimits::default() }
    }

    fn leases(&self) -> &dyn UnitLeases {
        &self.leases
    }

    async fn claim(&self, limit: u32, until: Timestamp) -> Result<Vec<Self::Unit>> {
        let (served, owner) = (self.pipeline.served(), self.context.worker.clone());
        self.context
            .store
            .claim_feeds(&SourceClaim { served, limit, owner, lease_until: until })
            .await
    }

    fn lease(&self, (lease, _): &Self::Unit) -> LeaseRef {
        *lease
    }

    async fn handle(&self, (lease, run): &Self::Unit, stop: Stop) -> SourceEnd {
        let (pipeline, position) = (run.pipeline.clone(), run.position.clone());
        let (id, lines) = (run.id.0, position.lines);
        tracing::info!(
            pipeline,
            pipeline_run = id,
            lines,
            source = run.source,
            "reading the source"
        );
        let call = SourceCall { pipeline, run: run.id, position };
        let (store, clock) = (self.context.store.clone(), self.context.clock.clone());
        let mut feed = SampleWriter::new(store, clock, *lease, run.clone(), stop.clone());
        let end = self.pipeline.source.read(&call, &mut feed, stop).await;
        if end == SourceEnd::Done {
            let pipeline = &run.pipeline;
            tracing::info!(pipeline, pipeline_run = id, "the source was read to its end");
        }
        end
    }

    fn complete(
        &self,
        (lease, _): &Self::Unit,
        outcome: SourceEnd,
        _: Timestamp,
        _: Timestamp,
    ) -> Completion<SourceFinish> {
        match outcome {
            SourceEnd::Done | SourceEnd::Unwanted => {
                Completion::Finish(self.finish_of(*lease, None, &self.context.worker))
            }
            SourceEnd::Failed(why) => {
                Completion::Finish(self.finish_of(*lease, Some(why), &self.context.worker))
            }
            SourceEnd::Stopped => Completion::Release,
        }
    }

    fn finish_lease(&self, finish: &SourceFinish) -> LeaseRef {
        finish.lease
    }

    async fn finish(&self, ends: &[SourceFinish]) -> Result<Vec<Written>> {
        self.context.store.finish_feeds(ends).await
    }

    /// A source has no ledger. Without a later lease on it, no other worker has read it.
    async fn was_written(&self, end: &SourceFinish) -> Result<bool> {
        let runs = self.context.store.pipeline_runs_by_id(&[PipelineRunId(end.lease.id)]).await?;
        Ok(runs.iter().any(|run| run.feed.is_none() && run.feed_epoch == end.lease.epoch))
    }

    fn log_finish(&self, end: &SourceFinish, written: Written) {
        let (pipeline, run) = (&self.pipeline.name, end.lease.id);
        match (&end.failure, written) {
            (_, Written::Stale) => {
                tracing::warn!(pipeline, run, "another worker reads the source by now");
            }
            (Some(failure), Written::Applied) => {
                let (code, error) = (failure.code().to_string(), failure.message().as_str());
                tracing::error!(
                    pipeline,
                    run,
                    code,
                    error,
                    "cannot read the source; the pipeline run is stopped"
                );
            }
            (None, Written::Applied) if end.worker == self.context.worker => {}
            (None, Written::Applied) => {
                let owner = &end.worker.0;
                tracing::warn!(pipeline, run, owner, "the reader of the source was lost");
            }
        }
    }

    async fn complete_lost(&self, expired: &[ExpiredLease]) -> Result<Vec<SourceFinish>> {
        let ids: Vec<_> = expired.iter().map(|expired| PipelineRunId(expired.lease.id)).collect();
        let runs = self.context.store.pipeline_runs_by_id(&ids).await?;
        let ours = |expired: &&ExpiredLease| {
            let of_pipeline = |run: &PipelineRunRecord| {
                run.id.0 == expired.lease.id && run.pipeline == self.pipeline.name
            };
            runs.iter().any(of_pipeline)
        };
        let lost = expired.iter().filter(ours);
        Ok(lost.map(|expired| self.finish_of(expired.lease, None, &expired.owner)).collect())
    }

    async fn backlog(&self) -> Result<Backlog> {
        let all = self.context.store.pipeline_backlog(&self.pipeline.served()).await?;
        Ok(backlog_of_one(all, None))
    }

    async fn next_due(&self) -> Result<Option<Timestamp>> {
        Ok(None)
    }
}
