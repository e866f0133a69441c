//! The view of a partition of a source.

use redrive_core::PartitionKey;
use redrive_store::PartitionRecord;
use serde::Serialize;

use crate::{explain::PartitionNext, words::instant};

/// A partition of a source.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PartitionView {
    pub source: String,
    pub customer_id: String,
    pub query_name: String,
    /// The day of the data, as YYYY-MM-DD.
    pub logical_date: String,
    /// `pending`, `success` or `failed`; null when the partition has no entry.
    pub status: Option<&'static str>,
    /// The raw run that consumers read.
    pub current_run_id: Option<String>,
    /// The schema version of the rows.
    pub schema_version: Option<String>,
    /// Number of rows.
    pub record_count: Option<u64>,
    pub attempt_count: Option<u32>,
    /// The error of the last attempt.
    pub error_message: Option<String>,
    /// The error of a reprocess that failed after the current run; only in the view of one partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_reprocess: Option<String>,
    pub updated_at: Option<String>,
    /// Whether automatic retries have ended.
    pub terminal: bool,
    /// Why automatic retries have ended.
    pub terminal_reason: Option<&'static str>,
    pub paused: bool,
    pub paused_by: Option<String>,
    pub paused_at: Option<String>,
    pub pause_reason: Option<String>,
    /// When the daemon retries the partition.
    pub next_retry_at: Option<String>,
    /// What happens next and why, in words.
    pub why: String,
}

impl PartitionView {
    /// The view of a partition without an entry.
    pub fn absent(key: &PartitionKey) -> Self {
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
            failed_reprocess: None,
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

    pub fn new(partition: PartitionRecord, next: PartitionNext) -> Self {
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
            next_retry_at: instant(next.retry_at),
            why: next.because,
            ..Self::absent(&partition.key)
        }
    }
}
