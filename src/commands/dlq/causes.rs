//! What dead letters died of, as it is printed: ten causes instead of ten thousand lines.

use redrive::DeadCause;
use serde::Serialize;

use crate::output::{Column, Row, excerpt_of};

/// How much of an example a row shows, in characters.
const EXAMPLE_CHARS: usize = 120;

/// A cause.
#[derive(Debug, Serialize)]
pub(super) struct CauseRow {
    fingerprint: String,
    count: u64,
    pipeline: String,
    stage: String,
    code: String,
    /// The message of one of them.
    example: String,
    /// The id of that one.
    first_id: i64,
    last_attempt_at: Option<String>,
}

impl From<DeadCause> for CauseRow {
    fn from(cause: DeadCause) -> Self {
        Self {
            fingerprint: cause.fingerprint,
            count: cause.count,
            pipeline: cause.pipeline,
            stage: cause.stage_name,
            code: cause.code,
            example: cause.example,
            first_id: cause.first.0,
            last_attempt_at: cause.last_attempt_at.map(|at| at.to_string()),
        }
    }
}

impl Row for CauseRow {
    const COLUMNS: &'static [Column] = &[
        Column::number("count"),
        Column::text("cause"),
        Column::text("pipeline"),
        Column::text("stage"),
        Column::text("code"),
        Column::number("first"),
        Column::text("example"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.count.to_string(),
            self.fingerprint.clone(),
            self.pipeline.clone(),
            self.stage.clone(),
            self.code.clone(),
            self.first_id.to_string(),
            excerpt_of(&self.example, EXAMPLE_CHARS),
        ]
    }
}
