//! An attempt of any kind of unit.

use std::time::Duration;

use redrive_store::AttemptRecord;
use serde::Serialize;
use serde_json::Value;

use crate::words::{between, seconds};

/// An attempt, as the ledger has it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptView {
    /// The stage of a sample.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stage: String,
    /// What the stage was configured with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage_config_hash: Option<String>,
    /// Its number.
    pub attempt: u32,
    /// The raw partition it wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: String,
    /// How long it took, in seconds.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub took_s: Value,
    /// `success`, `retrying`, `failed` or `skipped`.
    pub outcome: &'static str,
    /// The class of its failure.
    pub class: Option<String>,
    /// An HTTP status, an exit code or a name such as `timeout`.
    pub code: Option<String>,
    /// What the failure said.
    pub message: Option<String>,
    /// Where the failure came from.
    pub cause: Option<&'static str>,
    /// Whether it counts against the limit of attempts.
    pub counted: bool,
    /// How long was waited after it, in seconds.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub delay_s: Option<Value>,
    /// Who made it.
    pub worker: String,
    /// The rule behind what followed, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// How long it took.
    #[serde(skip)]
    pub took: Duration,
}

impl AttemptView {
    /// With the rule behind what followed.
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
