//! An item as it is printed: all of it, or what fits in a row.

use redrive_ops::views::ItemView;
use serde::Serialize;

use crate::output::{Column, Row, excerpt};

impl Row for ItemView {
    const COLUMNS: &'static [Column] = &[
        Column::text("id"),
        Column::text("upload"),
        Column::text("group"),
        Column::text("name"),
        Column::text("content_url"),
        Column::text("size_bytes"),
        Column::text("sha256"),
        Column::text("status"),
        Column::text("upload_attempts"),
        Column::text("attempts_at_reset"),
        Column::text("last_attempt"),
        Column::text("rejection_reason"),
        Column::text("updated_at"),
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

/// The same record in a list, where a table has room for less.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct ItemSummary(pub(super) ItemView);

impl Row for ItemSummary {
    const COLUMNS: &'static [Column] = &[
        Column::number("id"),
        Column::text("upload"),
        Column::text("group"),
        Column::text("name"),
        Column::text("status"),
        Column::number("attempts"),
        Column::text("reason"),
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
