//! The causes of dead letters, as rows.

use redrive_ops::views::DeadCauseView;

use crate::output::{TableColumn, TableRow, excerpt_to};

const EXAMPLE_CHARS: usize = 120;

impl TableRow for DeadCauseView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("count"),
        TableColumn::text("cause"),
        TableColumn::text("pipeline"),
        TableColumn::text("stage"),
        TableColumn::text("code"),
        TableColumn::number("first"),
        TableColumn::text("example"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.count.to_string(),
            self.fingerprint.clone(),
            self.pipeline.clone(),
            self.stage.clone(),
            self.code.clone(),
            self.first_id.to_string(),
            excerpt_to(&self.example, EXAMPLE_CHARS),
        ]
    }
}
