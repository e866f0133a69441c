//! A partition as it is printed: all of it, or what fits in a row.

use redrive_ops::views::PartitionView;
use serde::Serialize;

use crate::output::{Column, Row};

impl Row for PartitionView {
    const COLUMNS: &'static [Column] = &[
        Column::key("source"),
        Column::key("customer_id"),
        Column::key("query_name"),
        Column::text("logical_date"),
        Column::text("status"),
        Column::text("current_run_id"),
        Column::text("schema_version"),
        Column::text("record_count"),
        Column::text("attempt_count"),
        Column::text("error_message"),
        Column::text("updated_at"),
        Column::text("terminal"),
        Column::text("paused"),
        Column::text("next_retry_at"),
        Column::text("why"),
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
            or_empty(&self.updated_at),
            self.terminal_reason.unwrap_or("no").to_owned(),
            if self.paused { "yes" } else { "no" }.to_owned(),
            or_empty(&self.next_retry_at),
            self.why.clone(),
        ]
    }
}

/// The same record in a list, where a table has room for less.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct PartitionSummary(pub(super) PartitionView);

impl Row for PartitionSummary {
    const COLUMNS: &'static [Column] = &[
        Column::key("source"),
        Column::key("customer_id"),
        Column::key("query_name"),
        Column::text("logical_date"),
        Column::text("status"),
        Column::number("attempts"),
        Column::number("records"),
        Column::text("updated at"),
        Column::text("next"),
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
            row.why.clone(),
        ]
    }
}
