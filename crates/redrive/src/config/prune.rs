//! `[prune]`: where `redrive prune` exports to.

use std::path::PathBuf;

use super::{reader::Section, source::file_path};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneConfig {
    /// The export folder, as written.
    pub export: Option<PathBuf>,
}

impl PruneConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        Some(Self { export: s.get("export", file_path).map(PathBuf::from) })
    }
}
