//! A partition of a source.

use redrive_core::PartitionKey;
use redrive_store::PartitionRecord;
use serde::Serialize;

use crate::{explain::PartitionNext, words::instant};

/// All that is known of a partition.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PartitionView {
    /// Where it comes from.
    pub source: String,
    /// Whose it is.
    pub customer_id: String,
    /// What was asked for.
    pub query_name: String,
    /// The day it holds.
    pub logical_date: String,
    /// `pending`, `success` or `failed`; nothing, if it has no entry.
    pub status: Option<&'static str>,
    /// The raw run that has authority.
    pub current_run_id: Option<String>,
    /// The version of its rows.
    pub schema_version: Option<String>,
    /// How many rows it has.
    pub record_count: Option<u64>,
    /// How many attempts there were.
    pub attempt_count: Option<u32>,
    /// What was wrong with the last one.
    pub error_message: Option<String>,
    /// When it last changed.
    pub updated_at: Option<String>,
    /// Whether nothing retries it by itself.
    pub terminal: bool,
    /// Why not.
    pub terminal_reason: Option<&'static str>,
    /// Whether somebody paused it.
    pub paused: bool,
    /// Who.
    pub paused_by: Option<String>,
    /// When.
    pub paused_at: Option<String>,
    /// Why.
    pub pause_reason: Option<String>,
    /// When the daemon retries it.
    pub next_retry_at: Option<String>,
    /// What comes next and because of what, in words.
    pub why: String,
}

impl PartitionView {
    /// One that has no entry: nothing is known of it.
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

    /// One that has an entry.
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
