//! A run of a pipeline as it is printed.

use redrive::{PipelineRunRecord, PipelineStatus};
use serde::Serialize;

use crate::{
    context::Context,
    exit::{Exit, Failure},
    output::{Column, Row, excerpt},
    pipeline_desk::PipelineDesk,
};

use super::counts::StageCounts;

/// How a run stands: one flat record.
#[derive(Debug, Serialize)]
pub(super) struct RunRow {
    id: i64,
    pipeline: String,
    status: &'static str,
    total: u64,
    succeeded: u64,
    skipped: u64,
    dlq: u64,
    pending: u64,
    source_done: bool,
    success_rate: Option<f64>,
    failure_budget: f64,
    budget_processed: u64,
    budget_failed: u64,
    budget_exceeded: bool,
    source: String,
    lines_read: u64,
    started_at: String,
    started_by: String,
    ended_at: Option<String>,
    stop_reason: Option<String>,
}

impl From<&PipelineRunRecord> for RunRow {
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
            ended_at: run.ended_at.map(|at| at.to_string()),
            stop_reason: run.stop_reason.clone(),
        }
    }
}

impl RunRow {
    fn read_in_words(&self) -> String {
        let lines = self.lines_read;
        let end = if self.source_done { "to its end" } else { "not to its end" };
        format!("{} ({lines} lines read, {end})", self.source)
    }

    fn budget_in_words(&self) -> String {
        let Self { budget_processed: processed, budget_failed: failed, .. } = self;
        let verdict = if self.budget_exceeded { "exceeded" } else { "kept" };
        format!(
            "{verdict}: {failed} of {processed} failed, {} allowed",
            percent(self.failure_budget)
        )
    }
}

impl Row for RunRow {
    const COLUMNS: &'static [Column] = &[
        Column::text("id"),
        Column::text("pipeline"),
        Column::text("status"),
        Column::text("total"),
        Column::text("succeeded"),
        Column::text("skipped"),
        Column::text("dlq"),
        Column::text("pending"),
        Column::text("success rate"),
        Column::text("failure budget"),
        Column::text("source"),
        Column::text("started_at"),
        Column::text("started_by"),
        Column::text("ended_at"),
        Column::text("stop_reason"),
    ];

    fn cells(&self) -> Vec<String> {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            self.id.to_string(),
            self.pipeline.clone(),
            self.status.to_owned(),
            self.total.to_string(),
            self.succeeded.to_string(),
            self.skipped.to_string(),
            self.dlq.to_string(),
            self.pending.to_string(),
            self.success_rate.map(percent).unwrap_or_default(),
            self.budget_in_words(),
            self.read_in_words(),
            self.started_at.clone(),
            self.started_by.clone(),
            or_empty(&self.ended_at),
            or_empty(&self.stop_reason),
        ]
    }
}

/// The same record in a list, where a table has room for less.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct RunSummary(pub(super) RunRow);

impl Row for RunSummary {
    const COLUMNS: &'static [Column] = &[
        Column::number("id"),
        Column::text("pipeline"),
        Column::text("status"),
        Column::number("total"),
        Column::number("succeeded"),
        Column::number("skipped"),
        Column::number("dlq"),
        Column::number("pending"),
        Column::text("started at"),
        Column::text("stopped because"),
    ];

    fn cells(&self) -> Vec<String> {
        let run = &self.0;
        let more = if run.source_done { "" } else { "+" };
        vec![
            run.id.to_string(),
            run.pipeline.clone(),
            run.status.to_owned(),
            format!("{}{more}", run.total),
            run.succeeded.to_string(),
            run.skipped.to_string(),
            run.dlq.to_string(),
            run.pending.to_string(),
            run.started_at.clone(),
            excerpt(run.stop_reason.as_deref().unwrap_or_default()),
        ]
    }
}

/// A share in percent, to two digits after the point at most.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Prints how a run stands, and below it where its samples are and what to do.
pub(super) async fn print(
    run: &PipelineRunRecord,
    desk: &PipelineDesk,
    context: &Context,
) -> Result<(), Failure> {
    let output = context.output;
    output.record(&RunRow::from(run))?;
    if !output.is_table() {
        return Ok(());
    }
    let counts = StageCounts::read(run, &*desk.store).await.map_err(|error| desk.failure(error))?;
    output.remark_list("stages", &counts.rows)?;
    let advice = advice(run);
    if advice.is_empty() { Ok(()) } else { output.remark(&advice.join("\n")) }
}

/// What to do about it.
fn advice(run: &PipelineRunRecord) -> Vec<String> {
    let (id, tally) = (run.id, run.progress.tally);
    let mut advice = Vec::new();
    if matches!(run.progress.status, PipelineStatus::Aborted | PipelineStatus::Cancelled) {
        advice.push(format!("`redrive pipeline resume {id}` goes on from here"));
    }
    if tally.dlq > 0 {
        let dead = if tally.dlq == 1 { "is a dead letter" } else { "are dead letters" };
        let count = tally.dlq;
        advice.push(format!("{count} {dead}: `redrive dlq list --run {id} --group` shows why"));
    }
    if tally.succeeded > 0 {
        advice.push(format!("`redrive pipeline output {id}` prints the finished samples"));
    }
    advice
}

/// How a program ends that worked on a run.
pub(super) fn exit(status: PipelineStatus) -> Exit {
    match status {
        PipelineStatus::Completed => Exit::Ok,
        PipelineStatus::PartialSuccess => Exit::Partial,
        PipelineStatus::Failed
        | PipelineStatus::Aborted
        | PipelineStatus::Cancelled
        | PipelineStatus::Running => Exit::Error,
    }
}
