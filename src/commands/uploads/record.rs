//! An item as it is printed: all of it, or what fits in a row.

use redrive_store::ItemRecord;
use serde::Serialize;

use crate::output::{Column, Row, excerpt};

/// All that is known of an item, under the names of its columns.
#[derive(Debug, Serialize)]
pub(crate) struct ItemRow {
    id: i64,
    upload: String,
    group: String,
    name: String,
    content_url: String,
    size_bytes: u64,
    sha256: String,
    status: &'static str,
    upload_attempts: u32,
    attempts_at_reset: u32,
    last_attempt: u32,
    rejection_reason: Option<String>,
    updated_at: String,
}

impl From<ItemRecord> for ItemRow {
    fn from(item: ItemRecord) -> Self {
        Self {
            id: item.id.0,
            upload: item.group.upload,
            group: item.group.group,
            name: item.name,
            content_url: item.content_url,
            size_bytes: item.size_bytes,
            sha256: item.sha256,
            status: item.status.name(),
            upload_attempts: item.upload_attempts,
            attempts_at_reset: item.attempts_at_reset,
            last_attempt: item.last_attempt.0,
            rejection_reason: item.rejection_reason,
            updated_at: item.updated_at.to_string(),
        }
    }
}

impl Row for ItemRow {
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
pub(super) struct ItemSummary(pub(super) ItemRow);

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
