//! Pipelines and their samples through the gate and the weather.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{PipelineRunId, SampleId};
use redrive_store::{
    Backlog, ClaimedSample, DataEdit, DeadCause, JournalEntry, LeaseRef, NewPipelineRun, NewSample,
    Operator, PageLimit, PipelineAction, PipelineChange, PipelineRunRecord, Pipelines, Result,
    SampleChange, SampleClaim, SampleFinish, SampleLine, SampleRecord, SampleWritten, Samples,
    Selection, Served, SourceClaim, SourceFinish, SourcePosition, StageCount, StageStats, Written,
};

use super::{faulty_store::FaultyStore, log::What, pipelines::SampleNews};

#[async_trait]
impl Pipelines for FaultyStore {
    async fn start_pipeline_run(
        &self,
        run: &NewPipelineRun,
        by: &Operator,
    ) -> Result<PipelineRunId> {
        self.call("start_pipeline_run", self.inner.start_pipeline_run(run, by)).await
    }

    async fn pipeline_runs_by_id(&self, ids: &[PipelineRunId]) -> Result<Vec<PipelineRunRecord>> {
        self.call("pipeline_runs_by_id", self.inner.pipeline_runs_by_id(ids)).await
    }

    async fn pipeline_runs_page(
        &self,
        filter: &Selection,
        after: PipelineRunId,
        limit: PageLimit,
    ) -> Result<Vec<PipelineRunRecord>> {
        self.call("pipeline_runs_page", self.inner.pipeline_runs_page(filter, after, limit)).await
    }

    async fn change_pipeline_run(
        &self,
        id: PipelineRunId,
        action: &PipelineAction,
        by: &Operator,
    ) -> Result<PipelineChange> {
        self.call("change_pipeline_run", self.inner.change_pipeline_run(id, action, by)).await
    }

    async fn move_source(
        &self,
        id: PipelineRunId,
        position: &SourcePosition,
        journal: &JournalEntry,
    ) -> Result<Written> {
        self.call("move_source", self.inner.move_source(id, position, journal)).await
    }

    async fn claim_feeds(&self, claim: &SourceClaim) -> Result<Vec<(LeaseRef, PipelineRunRecord)>> {
        self.call("claim_feeds", self.inner.claim_feeds(claim)).await
    }

    async fn finish_feeds(&self, finishes: &[SourceFinish]) -> Result<Vec<Written>> {
        self.call("finish_feeds", self.inner.finish_feeds(finishes)).await
    }

    async fn stage_counts(&self, id: PipelineRunId) -> Result<Vec<StageCount>> {
        self.call("stage_counts", self.inner.stage_counts(id)).await
    }

    async fn stage_stats(&self, id: PipelineRunId) -> Result<Vec<StageStats>> {
        self.call("stage_stats", self.inner.stage_stats(id)).await
    }

    async fn pipeline_backlog(&self, served: &Served) -> Result<Backlog> {
        self.call("pipeline_outlook", self.inner.pipeline_backlog(served)).await
    }

    async fn next_sample_due(&self, served: &Served, stage: u32) -> Result<Option<Timestamp>> {
        self.call("next_sample_due", self.inner.next_sample_due(served, stage)).await
    }
}

#[async_trait]
impl Samples for FaultyStore {
    async fn append_samples(
        &self,
        feed: LeaseRef,
        samples: &[NewSample],
        position: &SourcePosition,
        at: Timestamp,
    ) -> Result<Option<PipelineRunRecord>> {
        self.call("append_samples", async {
            let run = self.inner.append_samples(feed, samples, position, at).await?;
            self.note(What::Sample(SampleNews::appended(feed, samples, run.as_ref())));
            Ok(run)
        })
        .await
    }

    async fn claim_samples(&self, claim: &SampleClaim) -> Result<Vec<ClaimedSample>> {
        self.call("claim_samples", async {
            let claimed = match &self.mutant {
                Some(mutant) => mutant.claim_samples(&*self.inner, claim).await?,
                None => self.inner.claim_samples(claim).await?,
            };
            for sample in &claimed {
                let run = self.inner.pipeline_runs_by_id(&[sample.run]).await?.remove(0);
                self.note(What::Sample(SampleNews::claimed(claim.stage, sample, &run)));
            }
            Ok(claimed)
        })
        .await
    }

    async fn finish_samples(&self, finishes: &[SampleFinish]) -> Result<Vec<SampleWritten>> {
        self.call("finish_samples", async {
            let written = match &self.mutant {
                Some(mutant) => mutant.finish_samples(&*self.inner, finishes).await?,
                None => self.inner.finish_samples(finishes).await?,
            };
            for (finish, written) in finishes.iter().zip(&written) {
                self.note(What::Sample(SampleNews::finished(finish, *written)));
                if *written == SampleWritten::Kept {
                    let run = self.inner.pipeline_runs_by_id(&[finish.run]).await?.remove(0);
                    self.note(What::Sample(SampleNews::kept(finish, &run)));
                }
            }
            Ok(written)
        })
        .await
    }

    async fn samples_by_id(&self, ids: &[SampleId]) -> Result<Vec<SampleRecord>> {
        self.call("samples_by_id", self.inner.samples_by_id(ids)).await
    }

    async fn samples_page(
        &self,
        filter: &Selection,
        after: SampleId,
        limit: PageLimit,
    ) -> Result<Vec<SampleRecord>> {
        self.call("samples_page", self.inner.samples_page(filter, after, limit)).await
    }

    async fn newest_dead_samples(
        &self,
        filter: &Selection,
        limit: u32,
    ) -> Result<Vec<SampleRecord>> {
        self.call("newest_dead_samples", self.inner.newest_dead_samples(filter, limit)).await
    }

    async fn count_samples(&self, filter: &Selection) -> Result<u64> {
        self.call("count_samples", self.inner.count_samples(filter)).await
    }

    async fn dead_causes(&self, filter: &Selection, limit: u32) -> Result<Vec<DeadCause>> {
        self.call("dead_causes", self.inner.dead_causes(filter, limit)).await
    }

    async fn edit_samples(&self, edits: &[DataEdit]) -> Result<Vec<Written>> {
        self.call("edit_samples", self.inner.edit_samples(edits)).await
    }

    async fn sample_lines(
        &self,
        run: PipelineRunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<SampleLine>> {
        self.call("sample_lines", self.inner.sample_lines(run, after, limit)).await
    }

    async fn reprocess_samples(
        &self,
        ids: &[SampleId],
        by: &Operator,
    ) -> Result<Vec<SampleChange>> {
        self.call("reprocess_samples", self.inner.reprocess_samples(ids, by)).await
    }

    async fn reread_samples(&self, edits: &[DataEdit], by: &Operator) -> Result<Vec<SampleChange>> {
        self.call("reread_samples", self.inner.reread_samples(edits, by)).await
    }
}
