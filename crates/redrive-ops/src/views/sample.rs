//! A sample of a pipeline, and what dead ones died of.

use redrive_core::SampleStatus;
use redrive_store::{DeadCause, SampleRecord};
use serde::Serialize;
use serde_json::value::RawValue;

use super::AttemptView;
use crate::words::instant;

/// All that is known of a sample.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SampleView {
    /// Its number.
    pub id: i64,
    /// The run of the pipeline it is in.
    pub run_id: i64,
    /// The pipeline.
    pub pipeline: String,
    /// Its line in the source.
    pub line: u64,
    /// `pending`, `succeeded`, `skipped` or `dlq`.
    pub status: &'static str,
    /// The stage it is at.
    pub stage: String,
    /// How many attempts there were at that stage.
    pub attempts: u32,
    /// Counted failures there, since the last reset.
    pub retry_count: u32,
    /// When it is tried again.
    pub next_retry_at: Option<String>,
    /// The class of the last failure.
    pub error_class: Option<String>,
    /// Its code.
    pub error_code: Option<String>,
    /// What it said.
    pub error_message: Option<String>,
    /// What failures of one cause share.
    pub fingerprint: Option<String>,
    /// Why it was passed over.
    pub skip_reason: Option<String>,
    /// Why it is dead.
    pub dlq_reason: Option<DlqReason>,
    /// Who works on it.
    pub lease_owner: Option<String>,
    /// What it holds, as it is written, so that no number loses a digit: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub data: Option<Box<RawValue>>,
}

/// Why a sample is dead.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DlqReason {
    /// Where it died.
    pub stage: String,
    /// Of what.
    pub error: String,
    /// At which attempt.
    pub attempts: u32,
    /// When that was.
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
    /// Without what it holds, which may be large.
    pub fn without_data(self) -> Self {
        Self { data: None, ..self }
    }
}

/// A sample with its attempts.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SampleWithLedger {
    /// The sample.
    #[serde(flatten)]
    pub sample: SampleView,
    /// Its attempts, in the order of the stages.
    pub ledger: Vec<AttemptView>,
}

/// What some dead letters died of.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CauseView {
    /// What their failures share.
    pub fingerprint: String,
    /// How many there are.
    pub count: u64,
    /// In which pipeline.
    pub pipeline: String,
    /// At which stage.
    pub stage: String,
    /// With which code.
    pub code: String,
    /// The message of one of them.
    pub example: String,
    /// The id of that one.
    pub first_id: i64,
    /// When the last of them died.
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
