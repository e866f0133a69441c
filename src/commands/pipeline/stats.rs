//! `redrive pipeline stats`: how the stages of a run have fared.

use clap::Args;
use redrive::StageStats;
use redrive_store::AttemptOutcome;
use serde::Serialize;

use super::{
    counts::{StageCountRow, StageCounts},
    record::percent,
    which::Which,
};
use crate::{
    context::{Context, Missing},
    exit::{Exit, Failure},
    output::{Column, Row, bar},
    pipeline_desk::PipelineDesk,
};

/// The arguments of `pipeline stats`.
#[derive(Debug, Args)]
#[command(after_help = "\
All of it is counted from the ledger. reliability: the share of attempts that did not fail. retried: the share of
samples that needed more than one attempt.

Examples:
  redrive pipeline stats
  redrive pipeline stats 3 -o json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,
}

/// How a run has fared.
#[derive(Debug, Serialize)]
struct Stats {
    id: i64,
    pipeline: String,
    status: &'static str,
    stages: Vec<StageRow>,
    /// Of all stages together, the most frequent first.
    errors: Vec<ErrorRow>,
}

/// How a stage has fared.
#[derive(Debug, Serialize)]
struct StageRow {
    #[serde(flatten)]
    counts: StageCountRow,
    samples: u64,
    attempts: u64,
    success_attempts: u64,
    retrying_attempts: u64,
    failed_attempts: u64,
    skipped_attempts: u64,
    reliability: Option<f64>,
    retry_rate: Option<f64>,
    retry_histogram: Vec<HistogramRow>,
    errors: Vec<ErrorRow>,
}

/// So many samples needed so many retries.
#[derive(Debug, Serialize)]
struct HistogramRow {
    retries: u32,
    samples: u64,
    #[serde(skip)]
    stage: String,
    #[serde(skip)]
    share: f64,
}

/// So many attempts failed with a code.
#[derive(Debug, Clone, Serialize)]
struct ErrorRow {
    code: String,
    count: u64,
    #[serde(skip)]
    stage: String,
    #[serde(skip)]
    share: f64,
}

impl StageRow {
    fn new(stats: &StageStats, counts: StageCountRow) -> Self {
        let of = |outcome: AttemptOutcome| {
            let known = stats.outcomes.iter().find(|(known, _)| *known == outcome);
            known.map_or(0, |(_, attempts)| *attempts)
        };
        let attempts = stats.outcomes.iter().map(|(_, attempts)| attempts).sum::<u64>();
        let samples = stats.executions.iter().map(|(_, samples)| samples).sum::<u64>();
        let retried = stats.executions.iter().filter(|(executions, _)| *executions > 1);
        let retried = retried.map(|(_, samples)| samples).sum::<u64>();
        let failures = of(AttemptOutcome::Retrying) + of(AttemptOutcome::Failed);
        let most = stats.executions.iter().map(|(_, samples)| *samples).max().unwrap_or(0);
        let histogram = stats.executions.iter().map(|(executions, samples)| HistogramRow {
            retries: executions.saturating_sub(1),
            samples: *samples,
            stage: stats.stage.clone(),
            share: share(*samples, most).unwrap_or_default(),
        });
        Self {
            samples,
            attempts,
            success_attempts: of(AttemptOutcome::Success),
            retrying_attempts: of(AttemptOutcome::Retrying),
            failed_attempts: of(AttemptOutcome::Failed),
            skipped_attempts: of(AttemptOutcome::Skipped),
            reliability: share(attempts.saturating_sub(failures), attempts),
            retry_rate: share(retried, samples),
            retry_histogram: histogram.collect(),
            errors: errors(&stats.stage, &stats.codes),
            counts,
        }
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn errors(stage: &str, codes: &[(String, u64)]) -> Vec<ErrorRow> {
    let most = codes.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let row = |(code, count): &(String, u64)| ErrorRow {
        code: code.clone(),
        count: *count,
        stage: stage.to_owned(),
        share: share(*count, most).unwrap_or_default(),
    };
    codes.iter().map(row).collect()
}

/// The codes of all stages together.
fn all_errors(stats: &[StageStats]) -> Vec<ErrorRow> {
    let mut codes: Vec<(String, u64)> = Vec::new();
    for (code, count) in stats.iter().flat_map(|stats| &stats.codes) {
        match codes.iter_mut().find(|(known, _)| known == code) {
            Some((_, sum)) => *sum += count,
            None => codes.push((code.clone(), *count)),
        }
    }
    codes.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    errors("", &codes)
}

impl Row for Stats {
    const COLUMNS: &'static [Column] =
        &[Column::text("id"), Column::text("pipeline"), Column::text("status")];

    fn cells(&self) -> Vec<String> {
        vec![self.id.to_string(), self.pipeline.clone(), self.status.to_owned()]
    }
}

impl Row for StageRow {
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

impl Row for HistogramRow {
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

impl Row for ErrorRow {
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
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let desk = PipelineDesk::open(context, Missing::Refuse).await?;
    let run = arguments.which.find(&desk).await?;
    let read = async {
        Ok((StageCounts::read(&run, &*desk.store).await?, desk.store.stage_stats(run.id).await?))
    };
    let (counts, stats) = read.await.map_err(|error| desk.failure(error))?;
    let stages = stats.iter().zip(counts.rows);
    let stats = Stats {
        id: run.id.0,
        pipeline: run.pipeline.clone(),
        status: run.progress.status.name(),
        stages: stages.map(|(stats, counts)| StageRow::new(stats, counts)).collect(),
        errors: all_errors(&stats),
    };
    let output = context.output;
    output.record(&stats)?;
    output.remark_list("reliability", &stats.stages)?;
    let histogram = stats.stages.iter().flat_map(|stage| &stage.retry_histogram);
    output.remark_list("retries", &histogram.collect::<Vec<_>>())?;
    let errors = stats.stages.iter().flat_map(|stage| &stage.errors);
    output.remark_list("errors", &errors.collect::<Vec<_>>())?;
    Ok(Exit::Ok)
}
