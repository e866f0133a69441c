//! Flags that select dead letters.

use clap::Args;
use jiff::Timestamp;
use redrive::{PipelineRunId, SampleFilter, SampleStatus};
use redrive_ops::parse_instant;

use crate::commands::pipeline::parse_id;

/// A dead letter must match every flag that is set.
#[derive(Debug, Clone, Args)]
pub(super) struct DeadLetterFilter {
    /// Only this pipeline
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pipeline: Option<String>,

    /// Only this run
    #[arg(long, value_name = "ID", allow_negative_numbers = true, value_parser = parse_id)]
    run: Option<PipelineRunId>,

    /// Only this failed stage; `source` selects invalid lines of the source
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    stage: Option<String>,

    /// Only errors that contain this text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    error: Option<String>,

    /// Only this error code: an HTTP status, an exit code or a name such as timeout
    #[arg(long, value_name = "CODE", allow_hyphen_values = true)]
    code: Option<String>,

    /// Only this cause, as `dlq list --group` prints it
    #[arg(long, value_name = "FINGERPRINT", value_parser = parse_fingerprint)]
    cause: Option<String>,

    /// Only last failures at this time or later
    #[arg(long, value_name = "TIME", value_parser = parse_instant)]
    failed_since: Option<Timestamp>,

    /// Only last failures before this time
    #[arg(long, value_name = "TIME", value_parser = parse_instant)]
    failed_until: Option<Timestamp>,
}

fn parse_fingerprint(text: &str) -> Result<String, String> {
    let is_valid = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let advice = "a fingerprint has 16 hexadecimal digits; `redrive dlq list --group` shows them";
    is_valid.then(|| text.to_ascii_lowercase()).ok_or_else(|| advice.to_owned())
}

impl DeadLetterFilter {
    pub(super) fn is_empty(&self) -> bool {
        let Self { pipeline, run, stage, error, code, cause, failed_since, failed_until } = self;
        let has_time = failed_since.or(*failed_until).is_some();
        run.is_none()
            && !has_time
            && [pipeline, stage, error, code, cause].iter().all(|it| it.is_none())
    }

    pub(super) fn sample_filter(&self) -> SampleFilter {
        SampleFilter {
            pipeline: self.pipeline.clone(),
            run: self.run,
            status: Some(SampleStatus::Dlq),
            stage: self.stage.clone(),
            error: self.error.clone(),
            code: self.code.clone(),
            cause: self.cause.clone(),
            failed_since: self.failed_since,
            failed_until: self.failed_until,
        }
    }
}
