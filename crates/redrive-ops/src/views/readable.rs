//! The view of a readable partition.

use redrive_engine::{Consumer, ReadablePartition};
use serde::Serialize;

/// A successful partition and the location of its rows.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReadableView {
    pub source: String,
    pub customer_id: String,
    pub query_name: String,
    /// The day of the data, as YYYY-MM-DD.
    pub logical_date: String,
    /// The raw run that consumers read.
    pub current_run_id: String,
    /// The schema version of the rows.
    pub schema_version: Option<String>,
    /// Number of rows.
    pub record_count: Option<u64>,
    pub updated_at: String,
    /// The path or URL of the rows. The file never changes.
    pub payload: String,
}

impl ReadableView {
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
