//! A partition as a record, and as a row of a list.

use redrive_ops::views::PartitionView;
use serde::Serialize;

use crate::output::{TableColumn, TableRow, excerpt};

impl TableRow for PartitionView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::key("source"),
        TableColumn::key("customer_id"),
        TableColumn::key("query_name"),
        TableColumn::text("logical_date"),
        TableColumn::text("status"),
        TableColumn::text("current_run_id"),
        TableColumn::text("schema_version"),
        TableColumn::text("record_count"),
        TableColumn::text("attempt_count"),
        TableColumn::text("error_message"),
        TableColumn::text("failed_reprocess"),
        TableColumn::text("updated_at"),
        TableColumn::text("terminal"),
        TableColumn::text("paused"),
        TableColumn::text("next_retry_at"),
        TableColumn::text("why"),
    ];

    fn cells(&self) -> Vec<String> {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            self.source.clone(),
            self.customer_id.clone(),
            self.query_name.clone(),
            self.logical_date.clone(),
            self.status.unwrap_or("no entry").to_owned(),
            or_empty(&self.current_run_id),
            or_empty(&self.schema_version),
            self.record_count.map(|count| count.to_string()).unwrap_or_default(),
            self.attempt_count.map(|count| count.to_string()).unwrap_or_default(),
            or_empty(&self.error_message),
            or_empty(&self.failed_reprocess),
            or_empty(&self.updated_at),
            self.terminal_reason.unwrap_or("no").to_owned(),
            if self.paused { "yes" } else { "no" }.to_owned(),
            or_empty(&self.next_retry_at),
            self.why.clone(),
        ]
    }
}

/// The record as a row of a list, with fewer columns in a table.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct PartitionListRow(pub(super) PartitionView);

impl TableRow for PartitionListRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::key("source"),
        TableColumn::key("customer_id"),
        TableColumn::key("query_name"),
        TableColumn::text("logical_date"),
        TableColumn::text("status"),
        TableColumn::number("attempts"),
        TableColumn::number("records"),
        TableColumn::text("updated at"),
        TableColumn::text("error"),
        TableColumn::text("next"),
    ];

    fn cells(&self) -> Vec<String> {
        let row = &self.0;
        let flag = match (row.terminal_reason, row.paused) {
            (Some(reason), _) => format!(", terminal ({reason})"),
            (None, true) => ", paused".to_owned(),
            (None, false) => String::new(),
        };
        vec![
            row.source.clone(),
            row.customer_id.clone(),
            row.query_name.clone(),
            row.logical_date.clone(),
            format!("{}{flag}", row.status.unwrap_or("no entry")),
            row.attempt_count.map(|count| count.to_string()).unwrap_or_default(),
            row.record_count.map(|count| count.to_string()).unwrap_or_default(),
            row.updated_at.clone().unwrap_or_default(),
            row.error_message.as_deref().map(excerpt).unwrap_or_default(),
            row.why.clone(),
        ]
    }
}
