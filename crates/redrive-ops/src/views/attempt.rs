//! The view of an attempt, for every kind of unit.

use std::time::Duration;

use redrive_store::AttemptRecord;
use serde::Serialize;
use serde_json::Value;

use crate::words::{between, seconds};

/// A ledger row.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptView {
    /// The stage, for an attempt at a sample.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stage: String,
    /// The hash of the stage's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage_config_hash: Option<String>,
    /// Counts from 1 for each unit, or for each stage of a sample.
    pub attempt: u32,
    /// The raw run that the attempt wrote, for a partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    pub started_at: String,
    pub ended_at: String,
    /// Duration in seconds.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub took_s: Value,
    /// `success`, `retrying`, `failed` or `skipped`.
    pub outcome: &'static str,
    /// Failure class.
    pub class: Option<String>,
    /// An HTTP status, an exit code or a name such as `timeout`.
    pub code: Option<String>,
    pub message: Option<String>,
    /// The component that failed.
    pub cause: Option<&'static str>,
    /// Whether the attempt counts towards the policy's limit.
    pub counted: bool,
    /// The wait after the attempt, in seconds.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub delay_s: Option<Value>,
    pub worker: String,
    /// The rule that decided what followed, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(skip)]
    pub took: Duration,
}

impl AttemptView {
    pub fn with_rule(self, rule: String) -> Self {
        Self { rule: Some(rule), ..self }
    }
}

impl From<&AttemptRecord> for AttemptView {
    fn from(attempt: &AttemptRecord) -> Self {
        let took = between(attempt.started_at, attempt.ended_at);
        Self {
            stage: attempt.unit.stage.clone(),
            stage_config_hash: attempt.stage_config_hash.clone(),
            attempt: attempt.attempt.0,
            run_id: attempt.run_id.clone(),
            started_at: attempt.started_at.to_string(),
            ended_at: attempt.ended_at.to_string(),
            took_s: seconds(took),
            outcome: attempt.outcome.name(),
            class: attempt.class.clone(),
            code: attempt.code.clone(),
            message: attempt.message.clone(),
            cause: attempt.cause.map(|cause| cause.name()),
            counted: attempt.counted,
            delay_s: attempt.delay.map(seconds),
            worker: attempt.worker.clone(),
            rule: None,
            took,
        }
    }
}
