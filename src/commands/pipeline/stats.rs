//! `redrive pipeline stats`: prints retries, errors and reliability of each stage.

use clap::Args;
use redrive_ops::{
    views::{ErrorView, HistogramView, PipelineStatsView, StageStatsView},
    words::percent,
};

use super::run_selector::PipelineRunSelector;
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{TableColumn, TableRow, bar},
};

#[derive(Debug, Args)]
#[command(after_help = "\
The numbers are counted from the ledger; `dlq` counts the dead letters that there are now, at `source` the lines that
were not samples. `reliability` is the share of attempts that did not fail, `retried` the share
of samples that needed more than one attempt.

Examples:
  redrive pipeline stats
  redrive pipeline stats 3 -o json")]
pub(crate) struct PipelineStatsArgs {
    #[command(flatten)]
    run: PipelineRunSelector,
}

impl TableRow for PipelineStatsView {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("id"), TableColumn::text("pipeline"), TableColumn::text("status")];

    fn cells(&self) -> Vec<String> {
        vec![self.id.to_string(), self.pipeline.clone(), self.status.to_owned()]
    }
}

impl TableRow for StageStatsView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("stage"),
        TableColumn::number("samples"),
        TableColumn::number("attempts"),
        TableColumn::number("success"),
        TableColumn::number("retrying"),
        TableColumn::number("failed"),
        TableColumn::number("skipped"),
        TableColumn::number("dlq"),
        TableColumn::number("reliability"),
        TableColumn::number("retried"),
    ];

    fn cells(&self) -> Vec<String> {
        let attempts = [
            self.samples,
            self.attempts,
            self.success_attempts,
            self.retrying_attempts,
            self.failed_attempts,
            self.skipped_attempts,
            self.counts.dlq,
        ];
        let shares = [self.reliability, self.retry_rate];
        std::iter::once(self.counts.stage.clone())
            .chain(attempts.iter().map(u64::to_string))
            .chain(shares.map(|share| share.map(percent).unwrap_or_default()))
            .collect()
    }
}

impl TableRow for HistogramView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("stage"),
        TableColumn::number("retries"),
        TableColumn::number("samples"),
        TableColumn::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        let (retries, samples) = (self.retries.to_string(), self.samples.to_string());
        vec![self.stage.clone(), retries, samples, bar(self.share)]
    }
}

impl TableRow for ErrorView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("stage"),
        TableColumn::text("code"),
        TableColumn::number("attempts"),
        TableColumn::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        vec![self.stage.clone(), self.code.clone(), self.count.to_string(), bar(self.share)]
    }
}

pub(crate) async fn run(args: PipelineStatsArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let run = args.run.find(&ops).await?;
    let stats = ops.pipeline_stats(&run).await.map_err(|error| ops.store_error(error))?;
    let output = context.output;
    output.record(&stats)?;
    if stats.pruned > 0 {
        let pruned = stats.pruned;
        output.footer(&format!(
            "{pruned} of its samples were pruned; these numbers do not include them"
        ))?;
    }
    output.section("reliability", &stats.stages)?;
    let histogram = stats.stages.iter().flat_map(|stage| &stage.retry_histogram);
    output.section("retries", &histogram.collect::<Vec<_>>())?;
    let errors = stats.stages.iter().flat_map(|stage| &stage.errors);
    output.section("errors", &errors.collect::<Vec<_>>())?;
    Ok(Exit::Ok)
}
