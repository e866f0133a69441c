//! How the stages of a pipeline run have fared, counted from the ledger.

use redrive_store::{AttemptOutcome, PipelineRunRecord, StageStats};
use serde::Serialize;

use super::StageCountView;

/// How a run has fared.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PipelineStatsView {
    /// The number of the run.
    pub id: i64,
    /// The pipeline it is of.
    pub pipeline: String,
    /// As in the record of the run.
    pub status: &'static str,
    /// Samples that are gone, with their attempts, and in none of the numbers below.
    pub pruned: u64,
    /// Stage by stage.
    pub stages: Vec<StageStatsView>,
    /// The errors of all stages together, the most frequent first.
    pub errors: Vec<ErrorView>,
}

/// How a stage has fared.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StageStatsView {
    /// Where the samples are.
    #[serde(flatten)]
    pub counts: StageCountView,
    /// Samples with an attempt here.
    pub samples: u64,
    /// Attempts.
    pub attempts: u64,
    /// Attempts that succeeded.
    pub success_attempts: u64,
    /// Attempts after which it was tried again.
    pub retrying_attempts: u64,
    /// Attempts that were the last, and failed.
    pub failed_attempts: u64,
    /// Attempts that passed the sample over.
    pub skipped_attempts: u64,
    /// The share of attempts that did not fail.
    pub reliability: Option<f64>,
    /// The share of samples that needed more than one attempt.
    pub retry_rate: Option<f64>,
    /// How many samples needed how many retries.
    pub retry_histogram: Vec<HistogramView>,
    /// Errors by code, the most frequent first.
    pub errors: Vec<ErrorView>,
}

/// So many samples needed so many retries.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistogramView {
    /// Retries.
    pub retries: u32,
    /// Samples.
    pub samples: u64,
    /// At this stage.
    #[serde(skip)]
    pub stage: String,
    /// As a share of the most frequent.
    #[serde(skip)]
    pub share: f64,
}

/// So many attempts failed with a code.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorView {
    /// The code.
    pub code: String,
    /// Attempts.
    pub count: u64,
    /// At this stage.
    #[serde(skip)]
    pub stage: String,
    /// As a share of the most frequent.
    #[serde(skip)]
    pub share: f64,
}

impl PipelineStatsView {
    /// From what the store counted.
    pub fn new(run: &PipelineRunRecord, stats: &[StageStats], counts: Vec<StageCountView>) -> Self {
        let stages = stats.iter().zip(counts);
        Self {
            id: run.id.0,
            pipeline: run.pipeline.clone(),
            status: run.progress.status.name(),
            pruned: run.pruned.total(),
            stages: stages.map(|(stats, counts)| StageStatsView::new(stats, counts)).collect(),
            errors: all_errors(stats),
        }
    }
}

impl StageStatsView {
    fn new(stats: &StageStats, counts: StageCountView) -> Self {
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
        let histogram = stats.executions.iter().map(|(executions, samples)| HistogramView {
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

fn errors(stage: &str, codes: &[(String, u64)]) -> Vec<ErrorView> {
    let most = codes.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let row = |(code, count): &(String, u64)| ErrorView {
        code: code.clone(),
        count: *count,
        stage: stage.to_owned(),
        share: share(*count, most).unwrap_or_default(),
    };
    codes.iter().map(row).collect()
}

/// The codes of all stages together.
fn all_errors(stats: &[StageStats]) -> Vec<ErrorView> {
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
