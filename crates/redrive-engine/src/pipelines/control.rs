//! What operators do to pipeline runs and dead letters. The CLI and the API change them through here only.

use std::sync::Arc;

use redrive_core::{Failure, PipelineRunId, PipelineStatus, SampleId};
use redrive_store::{
    DataEdit, JournalEntry, MAX_SAMPLE_BYTES, Operator, PipelineAction, PipelineChange,
    PipelineRunRecord, Result, SampleChange, SampleRecord, Store, Written, pipeline_entry,
    sample_unit,
};
use serde_json::{Value, json};

use super::{PatchedSource, Pipeline};

/// Dead letters selected by id are reprocessed in batches of this size.
const IDS_PER_BATCH: usize = 16;

/// The most changed lines that the journal names.
const MAX_JOURNAL_LINES: usize = 100;

#[derive(Clone)]
pub struct PipelineControl {
    store: Arc<dyn Store>,
}

/// Why a run was not resumed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    #[error("there is no pipeline run {0}")]
    Unknown(PipelineRunId),
    #[error("pipeline run {id} is {status}: the run has ended, so there is nothing to resume")]
    Over { id: PipelineRunId, status: PipelineStatus },
    #[error("pipeline run {id} belongs to pipeline {found:?}, not to {requested:?}")]
    OtherPipeline { id: PipelineRunId, found: String, requested: String },
    #[error(
        "pipeline run {id} started with the stages {before}, but the pipeline now has the stages \
         {now}"
    )]
    OtherStages { id: PipelineRunId, before: String, now: String },
    #[error("cannot resume the source of pipeline run {id}: {}", why.message())]
    Source { id: PipelineRunId, why: Failure },
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReprocessCounts {
    /// In a dry run: would be reprocessed.
    pub done: u64,
    /// Not a dead letter, without data, or unknown.
    pub refused: u64,
}

impl PipelineControl {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    pub async fn start(&self, pipeline: &Pipeline, by: &Operator) -> Result<PipelineRunId> {
        self.store.start_pipeline_run(&pipeline.new_run(), by).await
    }

    /// Resumes a run that was stopped or lost its worker, with the current rules of the pipeline. The source must
    /// be unchanged as far as it was read.
    pub async fn resume(
        &self,
        id: PipelineRunId,
        pipeline: &Pipeline,
        by: &Operator,
    ) -> std::result::Result<PipelineRunRecord, ResumeError> {
        let run = self.resumable(id, pipeline).await?;
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

    /// The run, if it belongs to the pipeline and has its stages.
    pub async fn resumable(
        &self,
        id: PipelineRunId,
        pipeline: &Pipeline,
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
        Ok(run)
    }

    /// Cancels a run: workers claim and read nothing more of it, and finish the attempts in progress.
    pub async fn cancel(&self, id: PipelineRunId, by: &Operator) -> Result<PipelineChange> {
        self.store.change_pipeline_run(id, &PipelineAction::Cancel, by).await
    }

    pub async fn run(&self, id: PipelineRunId) -> Result<Option<PipelineRunRecord>> {
        Ok(self.store.pipeline_runs_by_id(&[id]).await?.pop())
    }

    /// Returns dead letters to the stage at which they failed, with a new retry count. Without an operator this is a dry
    /// run. `on_change` receives every outcome.
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

    /// Gives dead letters new data. The journal keeps the old data. A letter that has changed since is left alone. Data
    /// that is larger than a sample may be is refused, and nothing is changed.
    pub async fn edit(
        &self,
        edits: Vec<(&SampleRecord, String)>,
        by: &Operator,
    ) -> Result<Vec<Written>> {
        self.store.edit_samples(&data_edits(edits, by)?).await
    }

    /// Reprocesses dead letters from the first stage with new data, as [`edit`](Self::edit) and
    /// [`reprocess_by_id`](Self::reprocess_by_id) in one step.
    pub async fn reread(
        &self,
        edits: Vec<(&SampleRecord, String)>,
        by: &Operator,
    ) -> Result<ReprocessCounts> {
        let mut counts = ReprocessCounts::default();
        let changes = self.store.reread_samples(&data_edits(edits, by)?, by).await?;
        changes.into_iter().for_each(|change| counts.add(change));
        Ok(counts)
    }

    /// Lets a run go on at a position of its patched source. Fails with `Stale` while a worker reads the source.
    pub async fn move_source(
        &self,
        run: &PipelineRunRecord,
        patched: &PatchedSource,
        by: &Operator,
    ) -> Result<Written> {
        let by = by.cleaned();
        let lines: Vec<u64> =
            patched.changed.iter().map(|changed| changed.line).take(MAX_JOURNAL_LINES).collect();
        let details = json!({
            "lines": run.position.lines,
            "changed": patched.changed.len(),
            "changed_lines": lines,
            "reason": by.reason,
        });
        let entry = pipeline_entry(run.id, "pipeline.source_changed", &details, by.at, &by.actor);
        self.store.move_source(run.id, &patched.position, &entry).await
    }

    async fn reprocess_batch(
        &self,
        ids: &[SampleId],
        samples: &[SampleRecord],
        by: Option<&Operator>,
    ) -> Result<Vec<SampleChange>> {
        let Some(by) = by else {
            let predicted = |id: &SampleId| {
                let sample = samples.iter().find(|sample| sample.id == *id);
                sample.map_or(SampleChange::Unknown, SampleChange::of_reprocess)
            };
            return Ok(ids.iter().map(predicted).collect());
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

/// The edits with their journal entries.
fn data_edits(edits: Vec<(&SampleRecord, String)>, by: &Operator) -> Result<Vec<DataEdit>> {
    let by = by.cleaned();
    if let Some((sample, new)) = edits.iter().find(|(_, new)| new.len() > MAX_SAMPLE_BYTES) {
        let (id, bytes) = (sample.id, new.len());
        let problem =
            format!("sample {id} would have {bytes} bytes, {MAX_SAMPLE_BYTES} are allowed");
        return Err(redrive_store::Error::misuse("editing samples", problem));
    }
    let edits = edits.into_iter().map(|(sample, new)| {
        let old = sample.data.as_deref().map(|old| serde_json::from_str::<Value>(old).ok());
        let details = json!({ "data": old.flatten(), "reason": by.reason });
        DataEdit {
            id: sample.id.0,
            old: sample.data.clone(),
            new,
            journal: JournalEntry {
                at: by.at,
                actor: by.actor.clone(),
                action: "sample.edit".to_owned(),
                unit: Some(sample_unit(sample.id, &sample.stage_name)),
                filter: None,
                details: details.to_string(),
                dedupe_key: None,
            },
        }
    });
    Ok(edits.collect())
}
