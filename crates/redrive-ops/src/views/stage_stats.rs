//! The views of stage statistics, which are counted from the ledger.

use redrive_store::{AttemptOutcome, PipelineRunRecord, StageStats};
use serde::Serialize;

use super::StageCountView;

/// Statistics of a pipeline run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PipelineStatsView {
    pub id: i64,
    pub pipeline: String,
    pub status: &'static str,
    /// Pruned samples. The other numbers exclude them and their attempts.
    pub pruned: u64,
    pub stages: Vec<StageStatsView>,
    /// Errors of all stages by code, most frequent first.
    pub errors: Vec<ErrorView>,
}

/// Statistics of a stage.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StageStatsView {
    #[serde(flatten)]
    pub counts: StageCountView,
    /// Samples with an attempt at the stage.
    pub samples: u64,
    pub attempts: u64,
    pub success_attempts: u64,
    /// Attempts that were followed by a retry.
    pub retrying_attempts: u64,
    /// Failed attempts without a retry.
    pub failed_attempts: u64,
    pub skipped_attempts: u64,
    /// Share of attempts that did not fail.
    pub reliability: Option<f64>,
    /// Share of samples with more than one attempt.
    pub retry_rate: Option<f64>,
    /// Number of samples by number of retries.
    pub retry_histogram: Vec<HistogramView>,
    /// Errors by code, most frequent first.
    pub errors: Vec<ErrorView>,
}

/// Number of samples with a number of retries.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistogramView {
    pub retries: u32,
    pub samples: u64,
    #[serde(skip)]
    pub stage: String,
    /// Relative to the largest row, for charts.
    #[serde(skip)]
    pub share: f64,
}

/// Number of attempts that failed with a code.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorView {
    pub code: String,
    pub count: u64,
    #[serde(skip)]
    pub stage: String,
    /// Relative to the largest row, for charts.
    #[serde(skip)]
    pub share: f64,
}

impl PipelineStatsView {
    pub fn new(run: &PipelineRunRecord, stats: &[StageStats], counts: Vec<StageCountView>) -> Self {
        let stages = counts.into_iter().map(|counts| {
            let none = StageStats { stage: counts.stage.clone(), ..StageStats::default() };
            let stats = stats.iter().find(|stats| stats.stage == counts.stage).unwrap_or(&none);
            StageStatsView::new(stats, counts)
        });
        Self {
            id: run.id.0,
            pipeline: run.pipeline.clone(),
            status: run.progress.status.name(),
            pruned: run.pruned.total(),
            stages: stages.collect(),
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
