//! A run of a queue.

use redrive_store::RunRecord;
use serde::Serialize;
use serde_json::Value;

use crate::words::{instant, json};

/// All that is known of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunView {
    /// Its number.
    pub id: i64,
    /// The queue it is in.
    pub queue: String,
    /// Its category within the queue.
    pub category: String,
    /// What the handler is given: any JSON.
    pub payload: Value,
    /// When it was submitted.
    pub submitted_at: String,
    /// No sooner than this it may begin.
    pub not_before: Option<String>,
    /// `discovered`, `processing`, `passed`, `needs_review`, `failed`, `error` or `cancelled`.
    pub status: &'static str,
    /// Counted failures since the last reset.
    pub retry_count: u32,
    /// When it is tried again, if it waits for that.
    pub next_retry_at: Option<String>,
    /// The class of the last failure.
    pub error_class: Option<String>,
    /// What the last failure said.
    pub error_message: Option<String>,
    /// What the handler answered: any JSON.
    pub result: Option<Value>,
    /// How many attempts there were.
    pub attempts: u32,
    /// The key that makes submitting it again harmless.
    pub idempotency_key: Option<String>,
    /// Who works on it.
    pub lease_owner: Option<String>,
    /// Until when, unless renewed, on the clock of leases.
    pub lease_until: Option<String>,
}

impl From<RunRecord> for RunView {
    fn from(run: RunRecord) -> Self {
        Self {
            id: run.id.0,
            queue: run.queue,
            category: run.category,
            payload: json(&run.payload),
            submitted_at: run.submitted_at.to_string(),
            not_before: instant(run.not_before),
            status: run.status.name(),
            retry_count: run.retry_count,
            next_retry_at: instant(run.next_retry_at),
            error_class: run.error_class,
            error_message: run.error_message,
            result: run.result.as_deref().map(json),
            attempts: run.attempts,
            idempotency_key: run.idempotency_key,
            lease_owner: run.lease_owner.map(|owner| owner.0),
            lease_until: instant(run.lease_until),
        }
    }
}
