//! The views of a sample and of the causes of dead letters.

use jiff::Timestamp;
use redrive_core::SampleStatus;
use redrive_store::{DeadCause, SampleRecord};
use serde::Serialize;

use super::AttemptView;

/// A sample of a pipeline run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = SampleWithReason))]
pub struct SampleView {
    #[serde(flatten)]
    pub sample: SampleRecord,
    /// Null unless the sample is a dead letter.
    pub dlq_reason: Option<DlqReason>,
}

/// The last failure of a dead letter.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DlqReason {
    pub stage: String,
    pub error: String,
    /// Number of attempts at the stage.
    pub attempts: u32,
    pub last_attempt_at: Option<Timestamp>,
}

impl From<SampleRecord> for SampleView {
    fn from(sample: SampleRecord) -> Self {
        let dlq_reason = (sample.status == SampleStatus::Dlq).then(|| DlqReason {
            stage: sample.stage_name.clone(),
            error: sample.error_message.clone().unwrap_or_default(),
            attempts: sample.attempts,
            last_attempt_at: sample.last_attempt_at,
        });
        Self { sample, dlq_reason }
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
pub struct DeadCauseView {
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
    pub last_attempt_at: Option<Timestamp>,
}

impl From<DeadCause> for DeadCauseView {
    fn from(cause: DeadCause) -> Self {
        Self {
            fingerprint: cause.fingerprint,
            count: cause.count,
            pipeline: cause.pipeline,
            stage: cause.stage_name,
            code: cause.code,
            example: cause.example,
            first_id: cause.first.0,
            last_attempt_at: cause.last_attempt_at,
        }
    }
}
