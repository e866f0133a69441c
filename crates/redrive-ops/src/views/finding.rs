//! Something that is wrong.

use redrive_engine::checker::Finding;
use serde::Serialize;

/// A broken invariant.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FindingView {
    /// Which one.
    pub invariant: &'static str,
    /// Where: a unit, or `database`.
    pub unit: String,
    /// What is wrong.
    pub problem: String,
}

impl From<Finding> for FindingView {
    fn from(Finding { invariant, unit, problem }: Finding) -> Self {
        Self { invariant: invariant.name(), unit, problem }
    }
}
