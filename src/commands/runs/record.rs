//! A run as it is printed: all of it, or what fits in a row.

use redrive_ops::views::RunView;
use serde::Serialize;
use serde_json::Value;

use crate::output::{Column, Row, excerpt};

impl Row for RunView {
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
pub(super) struct RunSummary(pub(super) RunView);

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
