//! The views of a sample and of the causes of dead letters.

use redrive_core::SampleStatus;
use redrive_store::{DeadCause, SampleRecord};
use serde::Serialize;
use serde_json::value::RawValue;

use super::AttemptView;
use crate::words::instant;

/// A sample of a pipeline run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SampleView {
    pub id: i64,
    /// The pipeline run.
    pub run_id: i64,
    pub pipeline: String,
    /// The line in the source.
    pub line: u64,
    /// `pending`, `succeeded`, `skipped` or `dlq`.
    pub status: &'static str,
    /// The current stage.
    pub stage: String,
    /// Attempts at the current stage.
    pub attempts: u32,
    /// Counted failures at the current stage since the last reset.
    pub retry_count: u32,
    pub next_retry_at: Option<String>,
    pub error_class: Option<String>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    /// Identical for all failures of one cause.
    pub fingerprint: Option<String>,
    pub skip_reason: Option<String>,
    /// Null unless the sample is a dead letter.
    pub dlq_reason: Option<DlqReason>,
    /// The worker that holds the sample.
    pub lease_owner: Option<String>,
    /// Any JSON, as written in the source, so that no number loses a digit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub data: Option<Box<RawValue>>,
}

/// The last failure of a dead letter.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DlqReason {
    pub stage: String,
    pub error: String,
    /// Number of attempts at the stage.
    pub attempts: u32,
    pub last_attempt_at: Option<String>,
}

impl From<SampleRecord> for SampleView {
    fn from(sample: SampleRecord) -> Self {
        let dlq_reason = (sample.status == SampleStatus::Dlq).then(|| DlqReason {
            stage: sample.stage_name.clone(),
            error: sample.error_message.clone().unwrap_or_default(),
            attempts: sample.attempts,
            last_attempt_at: instant(sample.last_attempt_at),
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
            next_retry_at: instant(sample.next_retry_at),
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

impl SampleView {
    /// Drops the data, which may be large.
    pub fn without_data(self) -> Self {
        Self { data: None, ..self }
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SampleWithLedger {
    #[serde(flatten)]
    pub sample: SampleView,
    /// Attempts, in the order of the stages.
    pub ledger: Vec<AttemptView>,
}

/// A cause of dead letters.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CauseView {
    /// Identical for all failures of the cause.
    pub fingerprint: String,
    /// Number of dead letters.
    pub count: u64,
    pub pipeline: String,
    pub stage: String,
    pub code: String,
    /// The message of one of the failures.
    pub example: String,
    /// The sample with the message in `example`.
    pub first_id: i64,
    /// When the last of the attempts ended.
    pub last_attempt_at: Option<String>,
}

impl From<DeadCause> for CauseView {
    fn from(cause: DeadCause) -> Self {
        Self {
            fingerprint: cause.fingerprint,
            count: cause.count,
            pipeline: cause.pipeline,
            stage: cause.stage_name,
            code: cause.code,
            example: cause.example,
            first_id: cause.first.0,
            last_attempt_at: instant(cause.last_attempt_at),
        }
    }
}
