//! The view of an item of an upload.

use redrive_store::ItemRecord;
use serde::Serialize;

/// An item of an upload.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemView {
    pub id: i64,
    pub upload: String,
    /// The group is uploaded together.
    pub group: String,
    /// Unique within the group.
    pub name: String,
    pub content_url: String,
    pub size_bytes: u64,
    /// The SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// `pending`, `uploaded`, `trusted`, `rejected` or `upload_giveup`.
    pub status: &'static str,
    /// Number of rejections.
    pub upload_attempts: u32,
    /// Number of rejections at the last reset.
    pub attempts_at_reset: u32,
    /// The number of the last attempt.
    pub last_attempt: u32,
    /// The reason of the last rejection.
    pub rejection_reason: Option<String>,
    pub updated_at: String,
}

impl From<ItemRecord> for ItemView {
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
