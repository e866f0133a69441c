//! The view of a run of a queue.

use redrive_store::RunRecord;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::words::instant;

/// A run of a queue.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunView {
    pub id: i64,
    pub queue: String,
    pub category: String,
    /// Any JSON; the input of the handler. Lists omit it unless asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub payload: Option<Box<RawValue>>,
    pub submitted_at: String,
    /// The earliest start.
    pub not_before: Option<String>,
    /// `discovered`, `processing`, `passed`, `needs_review`, `failed`, `error` or `cancelled`.
    pub status: &'static str,
    /// Counted failures since the last reset.
    pub retry_count: u32,
    /// Null unless the run waits for a retry.
    pub next_retry_at: Option<String>,
    pub error_class: Option<String>,
    pub error_message: Option<String>,
    /// Any JSON; the output of the handler. Lists omit it unless asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub result: Option<Box<RawValue>>,
    pub attempts: u32,
    /// A second submission with the same key is a duplicate.
    pub idempotency_key: Option<String>,
    /// The worker that holds the run.
    pub lease_owner: Option<String>,
    /// On the lease clock.
    pub lease_until: Option<String>,
}

impl From<RunRecord> for RunView {
    fn from(run: RunRecord) -> Self {
        Self {
            id: run.id.0,
            queue: run.queue,
            category: run.category,
            payload: raw(run.payload),
            submitted_at: run.submitted_at.to_string(),
            not_before: instant(run.not_before),
            status: run.status.name(),
            retry_count: run.retry_count,
            next_retry_at: instant(run.next_retry_at),
            error_class: run.error_class,
            error_message: run.error_message,
            result: raw(run.result.unwrap_or_else(|| "null".to_owned())),
            attempts: run.attempts,
            idempotency_key: run.idempotency_key,
            lease_owner: run.lease_owner.map(|owner| owner.0),
            lease_until: instant(run.lease_until),
        }
    }
}

impl RunView {
    /// Leaves payload and result out, which may be large.
    pub fn without_data(self) -> Self {
        Self { payload: None, result: None, ..self }
    }

    pub fn payload_json(&self) -> &str {
        self.payload.as_ref().map_or("null", |payload| payload.get())
    }

    /// The result, if the run has one.
    pub fn result_json(&self) -> Option<&str> {
        self.result.as_ref().map(|result| result.get()).filter(|result| *result != "null")
    }
}

/// JSON as stored, so that no number loses a digit and large values are not parsed.
fn raw(json: String) -> Option<Box<RawValue>> {
    RawValue::from_string(json).ok()
}
