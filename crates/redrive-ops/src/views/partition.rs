//! The view of a partition of a source.

use jiff::Timestamp;
use redrive_core::{LogicalDate, PartitionKey, PartitionRunId, PartitionStatus};
use redrive_store::PartitionRecord;
use serde::Serialize;

use crate::explain::PartitionNext;

/// A partition of a source.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PartitionView {
    #[serde(skip)]
    pub key: PartitionKey,
    pub source: String,
    pub customer_id: String,
    pub query_name: String,
    /// The day of the data, as YYYY-MM-DD.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub logical_date: LogicalDate,
    /// Null when the partition has no entry.
    pub status: Option<PartitionStatus>,
    /// The raw run that consumers read.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub current_run_id: Option<PartitionRunId>,
    /// The schema version of the rows.
    pub schema_version: Option<String>,
    /// Number of rows.
    pub record_count: Option<u64>,
    pub attempt_count: Option<u32>,
    /// The error of the last attempt.
    pub error_message: Option<String>,
    /// The class, the code and the cause of the failure; null unless the partition has failed.
    pub error_class: Option<String>,
    pub error_code: Option<String>,
    /// Identical for all failures of one cause.
    pub fingerprint: Option<String>,
    pub last_failure_at: Option<Timestamp>,
    /// The error of a reprocess that failed after the current run; only in the view of one partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_reprocess: Option<String>,
    pub updated_at: Option<Timestamp>,
    /// Whether automatic retries have ended.
    pub terminal: bool,
    /// Why automatic retries have ended.
    pub terminal_reason: Option<&'static str>,
    pub paused: bool,
    pub paused_by: Option<String>,
    pub paused_at: Option<Timestamp>,
    pub pause_reason: Option<String>,
    /// When the daemon retries the partition.
    pub next_retry_at: Option<Timestamp>,
    /// What happens next and why, in words.
    pub why: String,
}

impl PartitionView {
    /// The view of a partition without an entry.
    pub fn absent(key: &PartitionKey) -> Self {
        Self {
            key: key.clone(),
            source: key.source().to_owned(),
            customer_id: key.customer_id().to_owned(),
            query_name: key.query_name().to_owned(),
            logical_date: key.logical_date(),
            status: None,
            current_run_id: None,
            schema_version: None,
            record_count: None,
            attempt_count: None,
            error_message: None,
            error_class: None,
            error_code: None,
            fingerprint: None,
            last_failure_at: None,
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
        let last_failure_at = partition.last_failure.as_ref().map(|failure| failure.at);
        let is_failed = partition.status == PartitionStatus::Failed;
        let failure = partition.last_failure.filter(|_| is_failed);
        Self {
            status: Some(partition.status),
            current_run_id: partition.current_run_id,
            schema_version: partition.schema_version,
            record_count: partition.record_count,
            attempt_count: Some(partition.attempt_count),
            error_message: partition.error_message,
            error_class: failure.as_ref().map(|failure| failure.class.clone()),
            error_code: failure.as_ref().map(|failure| failure.code.clone()),
            fingerprint: failure.map(|failure| failure.fingerprint),
            last_failure_at,
            updated_at: Some(partition.updated_at),
            terminal: next.terminal.is_some(),
            terminal_reason: next.terminal.map(|reason| reason.name()),
            paused: paused.is_some(),
            paused_at: paused.as_ref().map(|by| by.at),
            paused_by: paused.as_ref().map(|by| by.actor.clone()),
            pause_reason: paused.and_then(|by| by.reason),
            next_retry_at: next.retry_at,
            why: next.because,
            ..Self::absent(&partition.key)
        }
    }

    /// `terminal` if automatic retries have ended, else the status.
    pub fn state(&self) -> &'static str {
        match self.status {
            Some(PartitionStatus::Failed) if self.terminal => "terminal",
            Some(status) => status.name(),
            None => "no_entry",
        }
    }

    /// The status with what holds it up.
    pub(crate) fn described_state(&self) -> String {
        let status = self.status.map_or("no entry", PartitionStatus::name);
        match (self.terminal_reason, self.paused) {
            (Some(reason), _) => format!("{status}, terminal ({reason})"),
            (None, true) => format!("{status}, paused"),
            (None, false) => status.to_owned(),
        }
    }
}
