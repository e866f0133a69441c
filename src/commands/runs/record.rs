//! A run as it is printed: all of it, or what fits in a row.

use redrive_store::RunRecord;
use serde::Serialize;
use serde_json::Value;

use crate::output::{Column, Row, excerpt};

/// All that is known of a run, under the names of its columns.
#[derive(Debug, Serialize)]
pub(crate) struct RunRow {
    id: i64,
    queue: String,
    category: String,
    payload: Value,
    submitted_at: String,
    not_before: Option<String>,
    status: &'static str,
    retry_count: u32,
    next_retry_at: Option<String>,
    error_class: Option<String>,
    error_message: Option<String>,
    result: Option<Value>,
    attempts: u32,
    idempotency_key: Option<String>,
    lease_owner: Option<String>,
    lease_until: Option<String>,
}

impl From<RunRecord> for RunRow {
    fn from(run: RunRecord) -> Self {
        Self {
            id: run.id.0,
            queue: run.queue,
            category: run.category,
            payload: json(&run.payload),
            submitted_at: run.submitted_at.to_string(),
            not_before: run.not_before.map(|at| at.to_string()),
            status: run.status.name(),
            retry_count: run.retry_count,
            next_retry_at: run.next_retry_at.map(|at| at.to_string()),
            error_class: run.error_class,
            error_message: run.error_message,
            result: run.result.as_deref().map(json),
            attempts: run.attempts,
            idempotency_key: run.idempotency_key,
            lease_owner: run.lease_owner.map(|owner| owner.0),
            lease_until: run.lease_until.map(|until| until.to_string()),
        }
    }
}

/// Stores hold JSON as text. What cannot be read back is shown as the text it is.
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

impl Row for RunRow {
    const COLUMNS: &'static [Column] = &[
        Column::text("id"),
        Column::text("queue"),
        Column::text("category"),
        Column::text("payload"),
        Column::text("submitted_at"),
        Column::text("not_before"),
        Column::text("status"),
        Column::text("retry_count"),
        Column::text("next_retry_at"),
        Column::text("error_class"),
        Column::text("error_message"),
        Column::text("result"),
        Column::text("attempts"),
        Column::text("idempotency_key"),
        Column::text("lease_owner"),
        Column::text("lease_until"),
    ];

    fn cells(&self) -> Vec<String> {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            self.id.to_string(),
            self.queue.clone(),
            self.category.clone(),
            self.payload.to_string(),
            self.submitted_at.clone(),
            or_empty(&self.not_before),
            self.status.to_owned(),
            self.retry_count.to_string(),
            or_empty(&self.next_retry_at),
            or_empty(&self.error_class),
            or_empty(&self.error_message),
            self.result.as_ref().map(Value::to_string).unwrap_or_default(),
            self.attempts.to_string(),
            or_empty(&self.idempotency_key),
            or_empty(&self.lease_owner),
            or_empty(&self.lease_until),
        ]
    }
}

/// The same record in a list, where a table has room for less.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct RunSummary(pub(super) RunRow);

impl Row for RunSummary {
    const COLUMNS: &'static [Column] = &[
        Column::number("id"),
        Column::text("queue"),
        Column::text("category"),
        Column::text("status"),
        Column::number("attempts"),
        Column::text("next retry at"),
        Column::text("error"),
    ];

    fn cells(&self) -> Vec<String> {
        let run = &self.0;
        vec![
            run.id.to_string(),
            run.queue.clone(),
            run.category.clone(),
            run.status.to_owned(),
            run.attempts.to_string(),
            run.next_retry_at.clone().unwrap_or_default(),
            excerpt(run.error_message.as_deref().unwrap_or_default()),
        ]
    }
}
