//! The view of a prune.

use jiff::Timestamp;
use redrive_engine::{ExportedFile, Prunable, PruneReport};
use serde::Serialize;

/// The result of a prune, or of its dry run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PruneView {
    /// Rows older than this instant are removed.
    pub before: String,
    /// True when nothing was removed.
    pub dry_run: bool,
    /// For a dry run over HTTP: the token that confirms this prune.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    pub runs: u64,
    pub samples: u64,
    /// Plans, with their units.
    pub plans: u64,
    /// Ledger rows; a dry run does not count them.
    pub attempts: Option<u64>,
    /// Exported rows that were kept because they changed during the prune.
    pub left: u64,
    /// The exported files.
    pub files: Vec<PrunedFileView>,
}

/// An exported file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PrunedFileView {
    /// `runs`, `samples`, `attempts`, `plans` or `plan_units`.
    pub kind: &'static str,
    pub path: String,
    /// Number of rows.
    pub rows: u64,
    /// The SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

impl PruneView {
    /// The view of a dry run.
    pub fn preview(before: Timestamp, prunable: Prunable) -> Self {
        Self {
            before: before.to_string(),
            dry_run: true,
            token: None,
            runs: prunable.runs,
            samples: prunable.samples,
            plans: prunable.plans,
            attempts: None,
            left: 0,
            files: Vec::new(),
        }
    }

    pub fn done(before: Timestamp, report: &PruneReport) -> Self {
        Self {
            before: before.to_string(),
            dry_run: false,
            token: None,
            runs: report.runs.units,
            samples: report.samples.units,
            plans: report.plans,
            attempts: Some(report.runs.attempts + report.samples.attempts),
            left: report.left,
            files: report.files.iter().map(PrunedFileView::from).collect(),
        }
    }
}

impl From<&ExportedFile> for PrunedFileView {
    fn from(file: &ExportedFile) -> Self {
        let path = file.path.display().to_string();
        Self { kind: file.kind, path, rows: file.rows, sha256: file.sha256.clone() }
    }
}
