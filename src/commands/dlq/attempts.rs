//! The attempts of a sample over all stages, as rows.

use redrive_ops::{views::AttemptView, words::rounded};
use serde::Serialize;

use crate::output::{TableColumn, TableRow};

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct StageAttempt<'a>(pub(super) &'a AttemptView);

impl TableRow for StageAttempt<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("stage"),
        TableColumn::number("attempt"),
        TableColumn::text("started at"),
        TableColumn::number("took"),
        TableColumn::text("outcome"),
        TableColumn::text("code"),
        TableColumn::text("message"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.0.stage.clone(),
            self.0.attempt.to_string(),
            self.0.started_at.clone(),
            rounded(self.0.took),
            self.0.outcome.to_owned(),
            self.0.code.clone().unwrap_or_default(),
            self.0.message.clone().unwrap_or_default(),
        ]
    }
}
