//! A run as a record, and as a row of a list.

use redrive_ops::views::RunView;
use serde::Serialize;

use crate::output::{TableColumn, TableRow, excerpt};

impl TableRow for RunView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("id"),
        TableColumn::text("queue"),
        TableColumn::text("category"),
        TableColumn::text("payload"),
        TableColumn::text("submitted_at"),
        TableColumn::text("not_before"),
        TableColumn::text("status"),
        TableColumn::text("retry_count"),
        TableColumn::text("next_retry_at"),
        TableColumn::text("error_class"),
        TableColumn::text("error_message"),
        TableColumn::text("result"),
        TableColumn::text("attempts"),
        TableColumn::text("idempotency_key"),
        TableColumn::text("lease_owner"),
        TableColumn::text("lease_until"),
    ];

    fn cells(&self) -> Vec<String> {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            self.id.to_string(),
            self.queue.clone(),
            self.category.clone(),
            self.payload_json().to_owned(),
            self.submitted_at.clone(),
            or_empty(&self.not_before),
            self.status.to_owned(),
            self.retry_count.to_string(),
            or_empty(&self.next_retry_at),
            or_empty(&self.error_class),
            or_empty(&self.error_message),
            self.result_json().unwrap_or_default().to_owned(),
            self.attempts.to_string(),
            or_empty(&self.idempotency_key),
            or_empty(&self.lease_owner),
            or_empty(&self.lease_until),
        ]
    }
}

/// The record as a row of a list, with fewer columns in a table.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct RunListRow(pub(super) RunView);

impl TableRow for RunListRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("id"),
        TableColumn::text("queue"),
        TableColumn::text("category"),
        TableColumn::text("status"),
        TableColumn::number("attempts"),
        TableColumn::text("next retry at"),
        TableColumn::text("error"),
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
