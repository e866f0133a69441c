//! `[plans]`: the execution of plans.

use std::time::Duration;

use super::{limits::lease, reader::Section};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlansConfig {
    /// How long a plan stays with an executor that stops renewing.
    pub lease: Duration,
}

impl Default for PlansConfig {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30) }
    }
}

impl PlansConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        Some(Self { lease: s.get("lease", lease()).unwrap_or(Self::default().lease) })
    }
}
