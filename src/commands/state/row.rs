//! A partition as it is printed: all of it, or what fits in a row.

use redrive::{PartitionKey, PartitionRecord};
use serde::Serialize;

use super::next::PartitionNext;
use crate::output::{Column, Row};

/// All that is known of a partition, under the names of its columns.
#[derive(Debug, Serialize)]
pub(crate) struct PartitionRow {
    source: String,
    customer_id: String,
    query_name: String,
    logical_date: String,
    status: Option<&'static str>,
    current_run_id: Option<String>,
    schema_version: Option<String>,
    record_count: Option<u64>,
    attempt_count: Option<u32>,
    error_message: Option<String>,
    updated_at: Option<String>,
    terminal: bool,
    terminal_reason: Option<&'static str>,
    paused: bool,
    paused_by: Option<String>,
    paused_at: Option<String>,
    pause_reason: Option<String>,
    next_retry_at: Option<String>,
    why: String,
}

impl PartitionRow {
    /// One that has no entry: nothing is known of it.
    pub(crate) fn absent(key: &PartitionKey) -> Self {
        Self {
            source: key.source().to_owned(),
            customer_id: key.customer_id().to_owned(),
            query_name: key.query_name().to_owned(),
            logical_date: key.logical_date().to_string(),
            status: None,
            current_run_id: None,
            schema_version: None,
            record_count: None,
            attempt_count: None,
            error_message: None,
            updated_at: None,
            terminal: false,
            terminal_reason: None,
            paused: false,
            paused_by: None,
            paused_at: None,
            pause_reason: None,
            next_retry_at: None,
            why: "no entry".to_owned(),
        }
    }

    pub(crate) fn new(partition: PartitionRecord, next: PartitionNext) -> Self {
        let paused = partition.paused().cloned();
        Self {
            status: Some(partition.status.name()),
            current_run_id: partition.current_run_id.map(|run_id| run_id.to_string()),
            schema_version: partition.schema_version,
            record_count: partition.record_count,
            attempt_count: Some(partition.attempt_count),
            error_message: partition.error_message,
            updated_at: Some(partition.updated_at.to_string()),
            terminal: next.terminal.is_some(),
            terminal_reason: next.terminal.map(|reason| reason.name()),
            paused: paused.is_some(),
            paused_at: paused.as_ref().map(|by| by.at.to_string()),
            paused_by: paused.as_ref().map(|by| by.actor.clone()),
            pause_reason: paused.and_then(|by| by.reason),
            next_retry_at: next.retry_at.map(|at| at.to_string()),
            why: next.because,
            ..Self::absent(&partition.key)
        }
    }
}

impl Row for PartitionRow {
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
pub(super) struct PartitionSummary(pub(super) PartitionRow);

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
