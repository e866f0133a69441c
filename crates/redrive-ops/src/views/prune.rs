//! What left a store.

use jiff::Timestamp;
use redrive_engine::{ExportedFile, Prunable, PruneReport};
use serde::Serialize;

/// What was removed, or would be.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PruneView {
    /// What has not been touched since.
    pub before: String,
    /// Whether nothing was done yet.
    pub dry_run: bool,
    /// Of a dry run over HTTP: what to send to have exactly this done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Runs.
    pub runs: u64,
    /// Samples.
    pub samples: u64,
    /// Rows of the ledger; a dry run does not count them.
    pub attempts: Option<u64>,
    /// What was written down and stayed, because it changed meanwhile.
    pub left: u64,
    /// What was written, each whole.
    pub files: Vec<PrunedFileView>,
}

/// A file that was written.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PrunedFileView {
    /// What its rows are: `runs`, `samples` or `attempts`.
    pub kind: &'static str,
    /// Where it is.
    pub path: String,
    /// How many rows it has.
    pub rows: u64,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

impl PruneView {
    /// What would go.
    pub fn preview(before: Timestamp, prunable: Prunable) -> Self {
        Self {
            before: before.to_string(),
            dry_run: true,
            token: None,
            runs: prunable.runs,
            samples: prunable.samples,
            attempts: None,
            left: 0,
            files: Vec::new(),
        }
    }

    /// What went.
    pub fn done(before: Timestamp, report: &PruneReport) -> Self {
        Self {
            before: before.to_string(),
            dry_run: false,
            token: None,
            runs: report.runs.units,
            samples: report.samples.units,
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
