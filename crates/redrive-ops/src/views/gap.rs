//! Days of a source that should be good by now and are not.

use redrive_engine::Gap;
use redrive_store::PartitionSeries;
use serde::Serialize;

/// Days one after another that are not good.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GapView {
    /// Where they come from.
    pub source: String,
    /// Whose they are.
    pub customer_id: String,
    /// What was asked for.
    pub query_name: String,
    /// The first day.
    pub since: String,
    /// The last day, which is included.
    pub until: String,
    /// How many there are.
    pub days: u64,
    /// `missing`, or `late` where there is an entry.
    pub gap: &'static str,
    /// The status of the entries.
    pub status: Option<&'static str>,
}

impl GapView {
    /// A gap of a series.
    pub fn new(series: &PartitionSeries, gap: &Gap) -> Self {
        Self {
            source: series.source.clone(),
            customer_id: series.customer_id.clone(),
            query_name: series.query_name.clone(),
            since: gap.days.since().to_string(),
            until: gap.days.until().to_string(),
            days: gap.days.days(),
            gap: if gap.status.is_some() { "late" } else { "missing" },
            status: gap.status.map(|status| status.name()),
        }
    }
}
