//! The view of a gap: days of a source that are due and not successful.

use redrive_core::PartitionStatus;
use redrive_engine::{Gap, Unreadable};
use redrive_store::PartitionSeries;
use serde::Serialize;

/// Consecutive days that are due and not successful.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GapView {
    pub source: String,
    pub customer_id: String,
    pub query_name: String,
    /// First day, as YYYY-MM-DD.
    pub since: String,
    /// Last day, inclusive.
    pub until: String,
    /// Number of days.
    pub days: u64,
    /// `missing` without an entry, `late` when pending, `failed` when retried later, or `gone` when terminal.
    pub gap: &'static str,
    /// The status of the entries; null for `missing`.
    pub status: Option<&'static str>,
}

impl GapView {
    pub fn new(series: &PartitionSeries, gap: &Gap) -> Self {
        let status = match gap.why {
            Unreadable::Late => Some(PartitionStatus::Pending),
            Unreadable::Failed | Unreadable::Gone => Some(PartitionStatus::Failed),
            _ => None,
        };
        Self {
            source: series.source.clone(),
            customer_id: series.customer_id.clone(),
            query_name: series.query_name.clone(),
            since: gap.days.since().to_string(),
            until: gap.days.until().to_string(),
            days: gap.days.days(),
            gap: gap.why.name(),
            status: status.map(PartitionStatus::name),
        }
    }
}
