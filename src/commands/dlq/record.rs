//! A sample as it is printed: all of it, or what fits in a row.

use redrive::{SampleRecord, SampleStatus};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::output::{Column, Row, excerpt, excerpt_of};

/// How much of a sample a table shows, in characters; programs get all of it.
const SHOWN_CHARS: usize = 2_000;

/// All that is known of a sample, under the names of its columns.
#[derive(Debug, Serialize)]
pub(crate) struct SampleRow {
    id: i64,
    run_id: i64,
    pipeline: String,
    line: u64,
    status: &'static str,
    stage: String,
    attempts: u32,
    retry_count: u32,
    next_retry_at: Option<String>,
    error_class: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
    fingerprint: Option<String>,
    skip_reason: Option<String>,
    dlq_reason: Option<DlqReason>,
    lease_owner: Option<String>,
    /// As it is written, so that no number loses a digit.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
}

/// Why a sample is dead.
#[derive(Debug, Serialize)]
struct DlqReason {
    stage: String,
    error: String,
    attempts: u32,
    last_attempt_at: Option<String>,
}

impl From<SampleRecord> for SampleRow {
    fn from(sample: SampleRecord) -> Self {
        let last_attempt_at = sample.last_attempt_at.map(|at| at.to_string());
        let dlq_reason = (sample.status == SampleStatus::Dlq).then(|| DlqReason {
            stage: sample.stage_name.clone(),
            error: sample.error_message.clone().unwrap_or_default(),
            attempts: sample.attempts,
            last_attempt_at,
        });
        Self {
            id: sample.id.0,
            run_id: sample.run.0,
            pipeline: sample.pipeline,
            line: sample.line,
            status: sample.status.name(),
            stage: sample.stage_name,
            attempts: sample.attempts,
            retry_count: sample.retry_count,
            next_retry_at: sample.next_retry_at.map(|at| at.to_string()),
            error_class: sample.error_class,
            error_code: sample.error_code,
            error_message: sample.error_message,
            fingerprint: sample.fingerprint,
            skip_reason: sample.skip_reason,
            dlq_reason,
            lease_owner: sample.lease_owner.map(|owner| owner.0),
            data: sample.data.and_then(|data| RawValue::from_string(data).ok()),
        }
    }
}

impl SampleRow {
    /// Without what it holds, which may be large.
    pub(super) fn without_data(self) -> Self {
        Self { data: None, ..self }
    }
}

impl Row for SampleRow {
    const COLUMNS: &'static [Column] = &[
        Column::text("id"),
        Column::text("run"),
        Column::text("line"),
        Column::text("status"),
        Column::text("stage"),
        Column::text("attempts"),
        Column::text("next_retry_at"),
        Column::text("class"),
        Column::text("code"),
        Column::text("error"),
        Column::text("cause"),
        Column::text("skip_reason"),
        Column::text("data"),
    ];

    fn cells(&self) -> Vec<String> {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            self.id.to_string(),
            format!("{} of {}", self.run_id, self.pipeline),
            self.line.to_string(),
            self.status.to_owned(),
            self.stage.clone(),
            self.attempts.to_string(),
            or_empty(&self.next_retry_at),
            or_empty(&self.error_class),
            or_empty(&self.error_code),
            or_empty(&self.error_message),
            or_empty(&self.fingerprint),
            or_empty(&self.skip_reason),
            self.data.as_ref().map(|data| excerpt_of(data.get(), SHOWN_CHARS)).unwrap_or_default(),
        ]
    }
}

/// The same record in a list, where a table has room for less.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct SampleSummary(pub(super) SampleRow);

impl Row for SampleSummary {
    const COLUMNS: &'static [Column] = &[
        Column::number("id"),
        Column::number("run"),
        Column::text("pipeline"),
        Column::number("line"),
        Column::text("stage"),
        Column::text("code"),
        Column::number("attempts"),
        Column::text("cause"),
        Column::text("error"),
    ];

    fn cells(&self) -> Vec<String> {
        let sample = &self.0;
        vec![
            sample.id.to_string(),
            sample.run_id.to_string(),
            sample.pipeline.clone(),
            sample.line.to_string(),
            sample.stage.clone(),
            sample.error_code.clone().unwrap_or_default(),
            sample.attempts.to_string(),
            sample.fingerprint.clone().unwrap_or_default(),
            excerpt(sample.error_message.as_deref().unwrap_or_default()),
        ]
    }
}
