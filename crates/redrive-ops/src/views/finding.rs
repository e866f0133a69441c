//! The view of a broken invariant.

use redrive_engine::checker::Finding;
use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FindingView {
    pub invariant: &'static str,
    /// The unit, or `database`.
    pub unit: String,
    pub problem: String,
}

impl From<Finding> for FindingView {
    fn from(Finding { invariant, unit, problem }: Finding) -> Self {
        Self { invariant: invariant.name(), unit, problem }
    }
}
