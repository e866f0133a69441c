//! What dead letters died of, as it is printed: ten causes instead of ten thousand lines.

use redrive_ops::views::CauseView;

use crate::output::{Column, Row, excerpt_of};

/// How much of an example a row shows, in characters.
const EXAMPLE_CHARS: usize = 120;

impl Row for CauseView {
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
