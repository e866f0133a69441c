//! A sample as a record, and as a row of a list.

use redrive_ops::views::SampleView;
use serde::Serialize;

use crate::output::{TableColumn, TableRow, excerpt, excerpt_to};

/// The most characters of `data` in a table; JSON formats print all.
const SHOWN_CHARS: usize = 2_000;

impl TableRow for SampleView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("id"),
        TableColumn::text("run"),
        TableColumn::text("line"),
        TableColumn::text("status"),
        TableColumn::text("stage"),
        TableColumn::text("attempts"),
        TableColumn::text("next_retry_at"),
        TableColumn::text("class"),
        TableColumn::text("code"),
        TableColumn::text("error"),
        TableColumn::text("cause"),
        TableColumn::text("skip_reason"),
        TableColumn::text("data"),
    ];

    fn cells(&self) -> Vec<String> {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            self.id.to_string(),
            format!("{} of {}", self.run_id, self.pipeline),
            self.line.to_string(),
            self.status.to_owned(),
            self.stage.clone(),
            self.attempts.to_string(),
            or_empty(&self.next_retry_at),
            or_empty(&self.error_class),
            or_empty(&self.error_code),
            or_empty(&self.error_message),
            or_empty(&self.fingerprint),
            or_empty(&self.skip_reason),
            self.data.as_ref().map(|data| excerpt_to(data.get(), SHOWN_CHARS)).unwrap_or_default(),
        ]
    }
}

/// The record as a row of a list, with fewer columns in a table.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct SampleListRow(pub(super) SampleView);

impl TableRow for SampleListRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("id"),
        TableColumn::number("run"),
        TableColumn::text("pipeline"),
        TableColumn::number("line"),
        TableColumn::text("stage"),
        TableColumn::text("code"),
        TableColumn::number("attempts"),
        TableColumn::text("cause"),
        TableColumn::text("error"),
    ];

    fn cells(&self) -> Vec<String> {
        let sample = &self.0;
        vec![
            sample.id.to_string(),
            sample.run_id.to_string(),
            sample.pipeline.clone(),
            sample.line.to_string(),
            sample.stage.clone(),
            sample.error_code.clone().unwrap_or_default(),
            sample.attempts.to_string(),
            sample.fingerprint.clone().unwrap_or_default(),
            excerpt(sample.error_message.as_deref().unwrap_or_default()),
        ]
    }
}
