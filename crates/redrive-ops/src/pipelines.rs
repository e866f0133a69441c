//! Reads of pipeline runs and their samples.

use redrive_core::{AttemptNumber, PipelineRunId, SampleId};
use redrive_engine::SamplePages;
use redrive_store::{
    MAX_PAGE, PipelineRunFilter, PipelineRunRecord, Result, SampleFilter, SampleRecord, UnitKind,
    UnitRow,
};

use crate::{
    Ops,
    views::{AttemptView, PipelineStatsView, SampleView, SampleWithLedger, StageCountView},
};

impl Ops {
    /// The newest run of a pipeline, or of all pipelines.
    pub async fn newest_pipeline_run(
        &self,
        pipeline: Option<String>,
    ) -> Result<Option<PipelineRunRecord>> {
        let filter = PipelineRunFilter { pipeline, status: None };
        Ok(self.store().pipeline_runs_page(&filter, PipelineRunId(i64::MAX), 1).await?.pop())
    }

    pub async fn pipeline_stats(&self, run: &PipelineRunRecord) -> Result<PipelineStatsView> {
        let counts = StageCountView::read(run, &**self.store()).await?;
        let stats = self.store().stage_stats(run.id).await?;
        Ok(PipelineStatsView::new(run, &stats, counts))
    }

    /// A sample with its attempts at all stages.
    pub async fn sample(&self, id: SampleId) -> Result<Option<SampleWithLedger>> {
        let Some(sample) = self.store().samples_by_id(&[id]).await?.pop() else {
            return Ok(None);
        };
        let run = self.pipelines().run(sample.run).await?;
        let stages = run.map(|run| run.stages).unwrap_or_default();
        let ledger = self.sample_attempts(&sample, &stages).await?;
        Ok(Some(SampleWithLedger { sample: sample.into(), ledger }))
    }

    /// Samples by id, without their data.
    pub async fn samples(
        &self,
        filter: SampleFilter,
        after: SampleId,
        limit: u32,
    ) -> Result<Vec<SampleView>> {
        let pages = SamplePages::new(self.store().clone(), filter);
        let mut pages = pages.after(after).with_limit(limit.into()).without_data();
        let mut found = Vec::new();
        loop {
            let page = pages.next().await?;
            if page.is_empty() {
                return Ok(found);
            }
            found.extend(page.into_iter().map(|sample| SampleView::from(sample).without_data()));
        }
    }

    async fn sample_attempts(
        &self,
        sample: &SampleRecord,
        stages: &[String],
    ) -> Result<Vec<AttemptView>> {
        let mut rows = Vec::new();
        for stage in stages {
            let unit = UnitRow { kind: UnitKind::Sample, id: sample.id.0, stage: stage.clone() };
            let attempts = self.store().attempts_of(&unit, AttemptNumber(0), MAX_PAGE).await?;
            rows.extend(attempts.iter().map(AttemptView::from));
        }
        Ok(rows)
    }
}
