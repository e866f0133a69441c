//! An item of an upload.

use redrive_store::ItemRecord;
use serde::Serialize;

/// All that is known of an item.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemView {
    /// Its number.
    pub id: i64,
    /// The upload it belongs to.
    pub upload: String,
    /// The group it is sent with.
    pub group: String,
    /// Its name in the group.
    pub name: String,
    /// Where its content is.
    pub content_url: String,
    /// How many bytes it has.
    pub size_bytes: u64,
    /// Their hash.
    pub sha256: String,
    /// `pending`, `uploaded`, `trusted`, `rejected` or `upload_giveup`.
    pub status: &'static str,
    /// How often it was rejected.
    pub upload_attempts: u32,
    /// How often, when it was last reset.
    pub attempts_at_reset: u32,
    /// The number of its last attempt.
    pub last_attempt: u32,
    /// Why it was rejected.
    pub rejection_reason: Option<String>,
    /// When it last changed.
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
