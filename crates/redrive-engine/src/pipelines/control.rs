//! What operators do to pipeline runs and dead letters. Commands call this and nothing else does.

use std::sync::Arc;

use redrive_core::{Failure, PipelineRunId, PipelineStatus, SampleId, SampleStatus};
use redrive_store::{
    Operator, PipelineAction, PipelineChange, PipelineRunRecord, Result, SampleChange,
    SampleFilter, SampleRecord, Store,
};

use super::{Pipeline, SamplePages};

/// Dead letters that are named are brought back so many at a time, each of them by itself.
const IDS_PER_BATCH: usize = 16;

/// Does to pipeline runs and dead letters what operators wish.
#[derive(Clone)]
pub struct PipelineControl {
    store: Arc<dyn Store>,
}

/// Why a run cannot be resumed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// There is no such run.
    #[error("there is no pipeline run {0}")]
    Unknown(PipelineRunId),
    /// It is over.
    #[error("pipeline run {id} is {status}: it is over, and nothing is left of it to do")]
    Over {
        /// The run.
        id: PipelineRunId,
        /// Its status.
        status: PipelineStatus,
    },
    /// It is a run of something else.
    #[error("pipeline run {id} is one of {found:?}, not of {requested:?}")]
    OtherPipeline {
        /// The run.
        id: PipelineRunId,
        /// Its pipeline.
        found: String,
        /// The one that was named.
        requested: String,
    },
    /// The stages have changed since it began.
    #[error(
        "the stages of the pipeline are {now}, and run {id} began with {before}: a sample would not \
         know where to go on"
    )]
    OtherStages {
        /// The run.
        id: PipelineRunId,
        /// Its stages.
        before: String,
        /// Those of the pipeline.
        now: String,
    },
    /// The source cannot be read on.
    #[error("the source of pipeline run {id} cannot be read on: {}", why.message())]
    Source {
        /// The run.
        id: PipelineRunId,
        /// Why.
        why: Failure,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

/// What became of the dead letters that were named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReprocessCounts {
    /// How many are back, or would be.
    pub done: u64,
    /// How many cannot be brought back.
    pub refused: u64,
}

impl PipelineControl {
    /// On a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Begins a run of a pipeline.
    pub async fn start(&self, pipeline: &Pipeline, by: &Operator) -> Result<PipelineRunId> {
        self.store.start_pipeline_run(&pipeline.new_run(), by).await
    }

    /// Has a run go on from where it stopped, or where its worker was lost, judged by the rules the
    /// pipeline has now. The source must be what it was.
    pub async fn resume(
        &self,
        id: PipelineRunId,
        pipeline: &Pipeline,
        by: &Operator,
    ) -> std::result::Result<PipelineRunRecord, ResumeError> {
        let run = self.run(id).await?.ok_or(ResumeError::Unknown(id))?;
        if run.pipeline != pipeline.name {
            let (found, requested) = (run.pipeline, pipeline.name.clone());
            return Err(ResumeError::OtherPipeline { id, found, requested });
        }
        if run.stages != pipeline.stage_names() {
            let (before, now) = (run.stages.join(", "), pipeline.stage_names().join(", "));
            return Err(ResumeError::OtherStages { id, before, now });
        }
        if !run.position.done
            && let Err(why) = pipeline.source.check(&run.position).await
        {
            return Err(ResumeError::Source { id, why });
        }
        let action = PipelineAction::Resume(pipeline.rules.clone());
        match self.store.change_pipeline_run(id, &action, by).await? {
            PipelineChange::Done(_) => self.run(id).await?.ok_or(ResumeError::Unknown(id)),
            PipelineChange::Refused(status) => Err(ResumeError::Over { id, status }),
            PipelineChange::Unknown => Err(ResumeError::Unknown(id)),
        }
    }

    /// Stops a run: nothing more is claimed or read, what is running may end.
    pub async fn cancel(&self, id: PipelineRunId, by: &Operator) -> Result<PipelineChange> {
        self.store.change_pipeline_run(id, &PipelineAction::Cancel, by).await
    }

    /// One run.
    pub async fn run(&self, id: PipelineRunId) -> Result<Option<PipelineRunRecord>> {
        Ok(self.store.pipeline_runs_by_id(&[id]).await?.pop())
    }

    /// Brings dead letters back to the stage they died at, with a new count of attempts: those that
    /// match, up to a limit, in the order of their ids. Without an operator nothing is changed, and
    /// everything is said that would be. Each is told as it is done.
    pub async fn reprocess(
        &self,
        filter: &SampleFilter,
        limit: u64,
        by: Option<&Operator>,
        mut on_change: impl FnMut(SampleId, Option<&SampleRecord>, SampleChange),
    ) -> Result<ReprocessCounts> {
        let filter = SampleFilter { status: Some(SampleStatus::Dlq), ..filter.clone() };
        let mut pages = SamplePages::new(self.store.clone(), filter).with_limit(limit);
        let mut counts = ReprocessCounts::default();
        loop {
            let dead = pages.next().await?;
            if dead.is_empty() {
                return Ok(counts);
            }
            let ids: Vec<SampleId> = dead.iter().map(|sample| sample.id).collect();
            let changes = self.reprocess_batch(&ids, &dead, by).await?;
            for (sample, change) in dead.iter().zip(changes) {
                counts.add(change);
                on_change(sample.id, Some(sample), change);
            }
        }
    }

    /// The same for samples that are named.
    pub async fn reprocess_by_id(
        &self,
        ids: &[SampleId],
        by: Option<&Operator>,
        mut on_change: impl FnMut(SampleId, Option<&SampleRecord>, SampleChange),
    ) -> Result<ReprocessCounts> {
        let mut counts = ReprocessCounts::default();
        for ids in ids.chunks(IDS_PER_BATCH) {
            let samples = self.store.samples_by_id(ids).await?;
            let changes = self.reprocess_batch(ids, &samples, by).await?;
            for (id, change) in ids.iter().zip(changes) {
                counts.add(change);
                on_change(*id, samples.iter().find(|sample| sample.id == *id), change);
            }
        }
        Ok(counts)
    }

    async fn reprocess_batch(
        &self,
        ids: &[SampleId],
        samples: &[SampleRecord],
        by: Option<&Operator>,
    ) -> Result<Vec<SampleChange>> {
        let Some(by) = by else {
            let foreseen = |id: &SampleId| {
                let sample = samples.iter().find(|sample| sample.id == *id);
                sample.map_or(SampleChange::Unknown, SampleChange::of_reprocess)
            };
            return Ok(ids.iter().map(foreseen).collect());
        };
        self.store.reprocess_samples(ids, by).await
    }
}

impl ReprocessCounts {
    fn add(&mut self, change: SampleChange) {
        match change {
            SampleChange::Done => self.done += 1,
            SampleChange::Refused(_) | SampleChange::NoData | SampleChange::Unknown => {
                self.refused += 1;
            }
        }
    }
}
