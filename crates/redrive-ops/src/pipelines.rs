//! Reads of pipeline runs and their samples.

use std::{cmp::Reverse, collections::BTreeMap};

use redrive_core::{AttemptNumber, PipelineRunId, SampleId};
use redrive_store::{
    MAX_PAGE, PageLimit, PipelineRunRecord, Result, SOURCE_STAGE, SampleRecord, Selection,
    StageStats, UnitKind, UnitRow,
};

use crate::{
    Ops,
    views::{AttemptView, PipelineStatsView, SampleWithLedger, StageCountView},
};

impl Ops {
    /// The newest run of a pipeline, or of all pipelines.
    pub async fn newest_pipeline_run(
        &self,
        pipeline: Option<String>,
    ) -> Result<Option<PipelineRunRecord>> {
        let filter = Selection { pipeline, ..Selection::default() };
        Ok(self
            .store()
            .pipeline_runs_page(&filter, PipelineRunId(i64::MAX), PageLimit::from(1).newest_first())
            .await?
            .pop())
    }

    pub async fn pipeline_stats(&self, run: &PipelineRunRecord) -> Result<PipelineStatsView> {
        let counts = StageCountView::read(run, &**self.store()).await?;
        let mut stats = self.store().stage_stats(run.id).await?;
        // The ledger has no attempts at the source.
        if counts.iter().any(|count| count.stage == SOURCE_STAGE) {
            stats.push(self.source_stats(run.id).await?);
        }
        Ok(PipelineStatsView::new(run, &stats, counts))
    }

    /// Lines that were not samples, by code.
    async fn source_stats(&self, run: PipelineRunId) -> Result<StageStats> {
        let stage = SOURCE_STAGE.to_owned();
        let lines =
            Selection { run: Some(run), stage: Some(stage.clone()), ..Selection::default() };
        let mut codes = BTreeMap::new();
        for cause in self.store().dead_causes(&lines, MAX_PAGE).await? {
            *codes.entry(cause.code).or_default() += cause.count;
        }
        let mut codes: Vec<(String, u64)> = codes.into_iter().collect();
        codes.sort_by_key(|(_, count)| Reverse(*count));
        Ok(StageStats { stage, codes, ..StageStats::default() })
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
