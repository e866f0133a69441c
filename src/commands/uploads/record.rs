//! An item as a record, and as a row of a list.

use redrive_ops::views::ItemView;
use serde::Serialize;

use crate::output::{TableColumn, TableRow, excerpt};

impl TableRow for ItemView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("id"),
        TableColumn::text("upload"),
        TableColumn::text("group"),
        TableColumn::text("name"),
        TableColumn::text("content_url"),
        TableColumn::text("size_bytes"),
        TableColumn::text("sha256"),
        TableColumn::text("status"),
        TableColumn::text("upload_attempts"),
        TableColumn::text("attempts_at_reset"),
        TableColumn::text("last_attempt"),
        TableColumn::text("rejection_reason"),
        TableColumn::text("updated_at"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.upload.clone(),
            self.group.clone(),
            self.name.clone(),
            self.content_url.clone(),
            self.size_bytes.to_string(),
            self.sha256.clone(),
            self.status.to_owned(),
            self.upload_attempts.to_string(),
            self.attempts_at_reset.to_string(),
            self.last_attempt.to_string(),
            self.rejection_reason.clone().unwrap_or_default(),
            self.updated_at.clone(),
        ]
    }
}

/// The record as a row of a list, with fewer columns in a table.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct ItemListRow(pub(super) ItemView);

impl TableRow for ItemListRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("id"),
        TableColumn::text("upload"),
        TableColumn::text("group"),
        TableColumn::text("name"),
        TableColumn::text("status"),
        TableColumn::number("attempts"),
        TableColumn::text("reason"),
    ];

    fn cells(&self) -> Vec<String> {
        let item = &self.0;
        vec![
            item.id.to_string(),
            item.upload.clone(),
            item.group.clone(),
            item.name.clone(),
            item.status.to_owned(),
            item.upload_attempts.to_string(),
            excerpt(item.rejection_reason.as_deref().unwrap_or_default()),
        ]
    }
}
