//! A partition that can be read.

use redrive_engine::{Consumer, ReadablePartition};
use serde::Serialize;

/// A good partition, and where its rows are.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReadableView {
    /// Where it comes from.
    pub source: String,
    /// Whose it is.
    pub customer_id: String,
    /// What was asked for.
    pub query_name: String,
    /// The day it holds.
    pub logical_date: String,
    /// The raw run that has authority.
    pub current_run_id: String,
    /// The version of its rows.
    pub schema_version: Option<String>,
    /// How many rows it has.
    pub record_count: Option<u64>,
    /// When it last changed.
    pub updated_at: String,
    /// The path or URL of its rows, which never change.
    pub payload: String,
}

impl ReadableView {
    /// One that was found by a consumer.
    pub fn new(found: &ReadablePartition, consumer: &Consumer) -> Self {
        Self {
            source: found.key.source().to_owned(),
            customer_id: found.key.customer_id().to_owned(),
            query_name: found.key.query_name().to_owned(),
            logical_date: found.key.logical_date().to_string(),
            current_run_id: found.run_id.to_string(),
            schema_version: found.schema_version.clone(),
            record_count: found.record_count,
            updated_at: found.updated_at.to_string(),
            payload: consumer.location(found).payload,
        }
    }
}
