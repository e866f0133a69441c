//! `redrive pipeline stats`: how the stages of a run have fared.

use clap::Args;
use redrive_ops::{
    views::{ErrorView, HistogramView, PipelineStatsView, StageStatsView},
    words::percent,
};

use super::which::Which;
use crate::{
    context::{Context, Missing},
    exit::{Exit, Failure},
    ops::Ops,
    output::{Column, Row, bar},
};

#[derive(Debug, Args)]
#[command(after_help = "\
All of it is counted from the ledger. reliability: the share of attempts that did not fail. retried: the share of
samples that needed more than one attempt.

Examples:
  redrive pipeline stats
  redrive pipeline stats 3 -o json")]
pub(crate) struct PipelineStatsArgs {
    #[command(flatten)]
    which: Which,
}

impl Row for PipelineStatsView {
    const COLUMNS: &'static [Column] =
        &[Column::text("id"), Column::text("pipeline"), Column::text("status")];

    fn cells(&self) -> Vec<String> {
        vec![self.id.to_string(), self.pipeline.clone(), self.status.to_owned()]
    }
}

impl Row for StageStatsView {
    const COLUMNS: &'static [Column] = &[
        Column::text("stage"),
        Column::number("samples"),
        Column::number("attempts"),
        Column::number("success"),
        Column::number("retrying"),
        Column::number("failed"),
        Column::number("skipped"),
        Column::number("reliability"),
        Column::number("retried"),
    ];

    fn cells(&self) -> Vec<String> {
        let attempts = [
            self.samples,
            self.attempts,
            self.success_attempts,
            self.retrying_attempts,
            self.failed_attempts,
            self.skipped_attempts,
        ];
        let shares = [self.reliability, self.retry_rate];
        std::iter::once(self.counts.stage.clone())
            .chain(attempts.iter().map(u64::to_string))
            .chain(shares.map(|share| share.map(percent).unwrap_or_default()))
            .collect()
    }
}

impl Row for HistogramView {
    const COLUMNS: &'static [Column] = &[
        Column::text("stage"),
        Column::number("retries"),
        Column::number("samples"),
        Column::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        let (retries, samples) = (self.retries.to_string(), self.samples.to_string());
        vec![self.stage.clone(), retries, samples, bar(self.share)]
    }
}

impl Row for ErrorView {
    const COLUMNS: &'static [Column] = &[
        Column::text("stage"),
        Column::text("code"),
        Column::number("attempts"),
        Column::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        vec![self.stage.clone(), self.code.clone(), self.count.to_string(), bar(self.share)]
    }
}

/// Runs `pipeline stats`.
pub(crate) async fn run(args: PipelineStatsArgs, context: &Context) -> Result<Exit, Failure> {
    let ops = Ops::open(context, Missing::Refuse).await?;
    let run = args.which.find(&ops).await?;
    let stats = ops.pipeline_stats(&run).await.map_err(|error| ops.failure(error))?;
    let output = context.output;
    output.record(&stats)?;
    if stats.pruned > 0 {
        let pruned = stats.pruned;
        output
            .remark(&format!("{pruned} of its samples were pruned and are not in these numbers"))?;
    }
    output.remark_list("reliability", &stats.stages)?;
    let histogram = stats.stages.iter().flat_map(|stage| &stage.retry_histogram);
    output.remark_list("retries", &histogram.collect::<Vec<_>>())?;
    let errors = stats.stages.iter().flat_map(|stage| &stage.errors);
    output.remark_list("errors", &errors.collect::<Vec<_>>())?;
    Ok(Exit::Ok)
}
