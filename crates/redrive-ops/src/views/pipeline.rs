//! A run of a pipeline, and where its samples are.

use redrive_store::{PipelineRunRecord, Result, StageCount, Store};
use serde::Serialize;

use crate::words::instant;

/// How a run of a pipeline stands.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PipelineRunView {
    /// Its number.
    pub id: i64,
    /// The pipeline it is of.
    pub pipeline: String,
    /// `running`, `completed`, `partial_success`, `failed`, `aborted` or `cancelled`.
    pub status: &'static str,
    /// Samples read so far.
    pub total: u64,
    /// Of those, finished.
    pub succeeded: u64,
    /// Passed over.
    pub skipped: u64,
    /// Dead letters.
    pub dlq: u64,
    /// Not ended yet.
    pub pending: u64,
    /// Ended samples that are gone: they were pruned.
    pub pruned: u64,
    /// Whether all of the source was read.
    pub source_done: bool,
    /// The share that finished, of those that were not passed over.
    pub success_rate: Option<f64>,
    /// The share that may fail.
    pub failure_budget: f64,
    /// Samples that count for the budget.
    pub budget_processed: u64,
    /// Of those, failed.
    pub budget_failed: u64,
    /// Whether that is too many.
    pub budget_exceeded: bool,
    /// Where the samples come from.
    pub source: String,
    /// Lines read of it.
    pub lines_read: u64,
    /// When it began.
    pub started_at: String,
    /// Who began it.
    pub started_by: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Why it stopped.
    pub stop_reason: Option<String>,
}

impl From<&PipelineRunRecord> for PipelineRunView {
    fn from(run: &PipelineRunRecord) -> Self {
        let (tally, budget) = (run.progress.tally, run.progress.budget);
        Self {
            id: run.id.0,
            pipeline: run.pipeline.clone(),
            status: run.progress.status.name(),
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
            started_at: run.started_at.to_string(),
            started_by: run.started_by.clone(),
            ended_at: instant(run.ended_at),
            stop_reason: run.stop_reason.clone(),
        }
    }
}

/// Where the samples are, at one stage.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StageCountView {
    /// The stage.
    pub stage: String,
    /// Past it.
    pub done: u64,
    /// Waiting for a worker.
    pub ready: u64,
    /// With a worker.
    pub in_flight: u64,
    /// Waiting for a retry.
    pub retrying: u64,
    /// Passed over here.
    pub skipped: u64,
    /// Dead here.
    pub dlq: u64,
}

impl StageCountView {
    /// Reads where the samples of a run are, a row for each stage.
    pub async fn read(run: &PipelineRunRecord, store: &dyn Store) -> Result<Vec<Self>> {
        let counts = store.stage_counts(run.id).await?;
        let kept = run.progress.tally.total.saturating_sub(run.pruned.total());
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
        Ok(rows.map(row).collect())
    }
}
