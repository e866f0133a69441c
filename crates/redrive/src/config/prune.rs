//! `[prune]`: where that goes which leaves the store.

use std::path::PathBuf;

use super::{reader::Section, source::file_path};

/// What the file says of pruning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneConfig {
    /// The folder that a prune writes to; a relative one counts from the folder of the file.
    pub export: Option<PathBuf>,
}

impl PruneConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        Some(Self { export: s.get("export", file_path).map(PathBuf::from) })
    }
}
