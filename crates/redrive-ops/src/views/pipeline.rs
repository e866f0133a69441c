//! The views of a pipeline run and of its stages.

use jiff::Timestamp;
use redrive_core::{PipelineRunId, PipelineStatus};
use redrive_store::{PipelineRunRecord, Result, SOURCE_STAGE, StageCount, Store};
use serde::Serialize;

/// A pipeline run and its progress.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PipelineRunView {
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub id: PipelineRunId,
    pub pipeline: String,
    pub status: PipelineStatus,
    /// Samples read so far.
    pub total: u64,
    pub succeeded: u64,
    pub skipped: u64,
    /// Dead letters.
    pub dlq: u64,
    /// Unfinished samples.
    pub pending: u64,
    /// Finished samples that were pruned.
    pub pruned: u64,
    /// Whether the source is read to its end.
    pub source_done: bool,
    /// Succeeded samples as a share of those that were not skipped.
    pub success_rate: Option<f64>,
    /// The allowed share of failed samples.
    pub failure_budget: f64,
    /// Samples that count towards the budget.
    pub budget_processed: u64,
    /// Failed samples among `budget_processed`.
    pub budget_failed: u64,
    pub budget_exceeded: bool,
    pub source: String,
    /// Lines of the source read so far.
    pub lines_read: u64,
    pub started_at: Timestamp,
    pub started_by: String,
    pub ended_at: Option<Timestamp>,
    pub stop_reason: Option<String>,
}

impl From<&PipelineRunRecord> for PipelineRunView {
    fn from(run: &PipelineRunRecord) -> Self {
        let (tally, budget) = (run.progress.counts, run.progress.budget);
        Self {
            id: run.id,
            pipeline: run.pipeline.clone(),
            status: run.progress.status,
            total: tally.total,
            succeeded: tally.succeeded,
            skipped: tally.skipped,
            dlq: tally.dlq,
            pending: tally.pending(),
            pruned: run.pruned.total(),
            source_done: tally.source_done,
            success_rate: tally.success_rate(),
            failure_budget: run.rules.budget.rate,
            budget_processed: budget.processed,
            budget_failed: budget.failed,
            budget_exceeded: run.budget_exceeded().is_some(),
            source: run.source.clone(),
            lines_read: run.position.lines,
            started_at: run.started_at,
            started_by: run.started_by.clone(),
            ended_at: run.ended_at,
            stop_reason: run.stop_reason.clone(),
        }
    }
}

/// Number of samples at a stage, by state.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StageCountView {
    pub stage: String,
    /// Samples past the stage.
    pub done: u64,
    /// Samples that wait for a worker.
    pub ready: u64,
    /// Samples that a worker holds.
    pub in_flight: u64,
    /// Samples that wait for a retry.
    pub retrying: u64,
    /// Samples that the stage skipped.
    pub skipped: u64,
    /// Dead letters of the stage.
    pub dlq: u64,
}

impl StageCountView {
    /// Reads the counts of a run, one row for each stage. Lines that were not samples are dead at the source, which has
    /// a row of its own then.
    pub async fn read(run: &PipelineRunRecord, store: &dyn Store) -> Result<Vec<Self>> {
        let counts = store.stage_counts(run.id).await?;
        let kept = run.progress.counts.total.saturating_sub(run.pruned.total());
        let done = StageCount::done(kept, &counts);
        let rows = run.stages.iter().zip(&counts).zip(done);
        let row = |((stage, count), done): ((&String, &StageCount), u64)| Self {
            stage: stage.clone(),
            done,
            ready: count.ready,
            in_flight: count.running,
            retrying: count.retrying,
            skipped: count.skipped,
            dlq: count.dlq,
        };
        let dlq: u64 = counts.iter().map(|count| count.source_dlq).sum();
        let source = (dlq > 0).then(|| Self {
            stage: SOURCE_STAGE.to_owned(),
            done: kept.saturating_sub(dlq),
            ready: 0,
            in_flight: 0,
            retrying: 0,
            skipped: 0,
            dlq,
        });
        Ok(source.into_iter().chain(rows.map(row)).collect())
    }
}
