//! The dead letters that a command is for, as its flags name them.

use clap::Args;
use redrive::{PipelineRunId, SampleFilter, SampleStatus};

use crate::commands::pipeline::parse_id;

/// DeadLetterFilter dead letters. Everything given must match.
#[derive(Debug, Clone, Args)]
pub(super) struct DeadLetterFilter {
    /// Of this pipeline alone
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pipeline: Option<String>,

    /// Of this run alone
    #[arg(long, value_name = "ID", allow_negative_numbers = true, value_parser = parse_id)]
    run: Option<PipelineRunId>,

    /// That died at this stage; `source` for lines that were no samples
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    stage: Option<String>,

    /// With this text in the error
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    error: Option<String>,

    /// With this code: an HTTP status, an exit code or a name such as timeout
    #[arg(long, value_name = "CODE", allow_hyphen_values = true)]
    code: Option<String>,

    /// Of this cause, as `dlq list --group` names it
    #[arg(long, value_name = "FINGERPRINT", value_parser = parse_fingerprint)]
    cause: Option<String>,
}

/// Sixteen digits, as they are printed.
fn parse_fingerprint(text: &str) -> Result<String, String> {
    let is_one = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let advice = "a fingerprint has 16 hexadecimal digits; `redrive dlq list --group` shows them";
    is_one.then(|| text.to_ascii_lowercase()).ok_or_else(|| advice.to_owned())
}

impl DeadLetterFilter {
    /// Whether nothing narrows it.
    pub(super) fn is_empty(&self) -> bool {
        let Self { pipeline, run, stage, error, code, cause } = self;
        run.is_none() && [pipeline, stage, error, code, cause].iter().all(|it| it.is_none())
    }

    /// The dead letters that match.
    pub(super) fn sample_filter(&self) -> SampleFilter {
        SampleFilter {
            pipeline: self.pipeline.clone(),
            run: self.run,
            status: Some(SampleStatus::Dlq),
            stage: self.stage.clone(),
            error: self.error.clone(),
            code: self.code.clone(),
            cause: self.cause.clone(),
        }
    }
}
