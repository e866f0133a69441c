//! A pipeline run as a record, and as a row of a list.

use redrive::{PipelineRunRecord, PipelineStatus};
use redrive_ops::{
    views::{PipelineRunView, StageCountView},
    words::percent,
};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{TableColumn, TableRow},
};

fn describe_source(run: &PipelineRunView) -> String {
    let lines = run.lines_read;
    let end = if run.source_done { "to its end" } else { "not to its end" };
    format!("{} ({lines} lines read, {end})", run.source)
}

fn describe_budget(run: &PipelineRunView) -> String {
    let PipelineRunView { budget_processed: processed, budget_failed: failed, .. } = run;
    let verdict = if run.budget_exceeded { "exceeded" } else { "kept" };
    format!("{verdict}: {failed} of {processed} failed, {} allowed", percent(run.failure_budget))
}

impl TableRow for PipelineRunView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("id"),
        TableColumn::text("pipeline"),
        TableColumn::text("status"),
        TableColumn::text("total"),
        TableColumn::text("succeeded"),
        TableColumn::text("skipped"),
        TableColumn::text("dlq"),
        TableColumn::text("pending"),
        TableColumn::text("success rate"),
        TableColumn::text("failure budget"),
        TableColumn::text("source"),
        TableColumn::text("started_at"),
        TableColumn::text("started_by"),
        TableColumn::text("ended_at"),
        TableColumn::text("stop_reason"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.pipeline.clone(),
            self.status.name().to_owned(),
            self.total.to_string(),
            self.succeeded.to_string(),
            self.skipped.to_string(),
            self.dlq.to_string(),
            self.pending.to_string(),
            self.success_rate.map(percent).unwrap_or_default(),
            describe_budget(self),
            describe_source(self),
            self.started_at.to_string(),
            self.started_by.clone(),
            self.ended_at.map(|at| at.to_string()).unwrap_or_default(),
            self.stop_reason.clone().unwrap_or_default(),
        ]
    }
}

/// Prints the status of a run, the counts of its stages, and hints what to do next.
pub(super) async fn print(
    run: &PipelineRunRecord,
    ops: &OpenStore,
    context: &Context,
) -> Result<(), CommandError> {
    let output = context.output;
    output.record(&PipelineRunView::from(run))?;
    if !output.is_table() {
        return Ok(());
    }
    let counts = StageCountView::read(run, &**ops.store()).await;
    output.section("stages", &counts.map_err(|error| ops.store_error(error))?)?;
    let hints = hints(run);
    if hints.is_empty() { Ok(()) } else { output.footer(&hints.join("\n")) }
}

fn hints(run: &PipelineRunRecord) -> Vec<String> {
    let (id, tally, pruned) = (run.id, run.progress.counts, run.pruned);
    let mut hints = Vec::new();
    if pruned.total() > 0 {
        let (count, total) = (pruned.total(), tally.total);
        hints.push(format!("{count} of its {total} samples were pruned; the counts include them"));
    }
    if matches!(run.progress.status, PipelineStatus::Aborted | PipelineStatus::Cancelled) {
        hints.push(format!("`redrive pipeline resume {id}` continues the run"));
    }
    let count = tally.dlq.saturating_sub(pruned.dlq);
    if count > 0 {
        let dead = if count == 1 { "is a dead letter" } else { "are dead letters" };
        hints.push(format!(
            "{count} {dead}: `redrive dlq list --run {id} --group` shows the causes"
        ));
    }
    if tally.succeeded > pruned.succeeded {
        hints.push(format!("`redrive pipeline output {id}` prints the succeeded samples"));
    }
    hints
}

/// The exit code for the status of a run.
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
