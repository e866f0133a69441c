//! Items of uploads: files or records that are sent in groups and acknowledged one by one.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{ItemEvent, ItemId, ItemStatus, Message};

use crate::{Error, JournalEntry, MAX_NAME_BYTES, Result, Written};

/// The items that one call sends together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ItemGroup {
    /// The upload, by its name in the configuration.
    pub upload: String,
    /// The group within it.
    pub group: String,
}

/// An item to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewItem {
    /// Where it belongs.
    pub group: ItemGroup,
    /// Its name, unique in the group.
    pub name: String,
    /// Where its bytes are.
    pub content_url: String,
    /// How many there are.
    pub size_bytes: u64,
    /// Their hash, as lower-case hex.
    pub sha256: String,
}

impl NewItem {
    /// Refuses names that no store could keep, or that nobody could tell apart.
    pub fn check(&self) -> Result<()> {
        let ItemGroup { upload, group } = &self.group;
        let names = [("upload", upload), ("group", group), ("name", &self.name)];
        for (field, value) in names {
            let problem = if value.is_empty() {
                "must not be empty".to_owned()
            } else if value.contains('\0') {
                "must not contain a NUL character".to_owned()
            } else if value.len() > MAX_NAME_BYTES {
                format!("has {} bytes, {MAX_NAME_BYTES} are allowed", value.len())
            } else {
                continue;
            };
            return Err(Error::misuse("adding items", format!("the {field} of an item {problem}")));
        }
        Ok(())
    }
}

/// What became of an item that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddedItem {
    /// It is pending.
    Accepted(ItemId),
    /// An item of that name with the same hash is there already; nothing happened.
    Duplicate(ItemId),
    /// An item of that name with another hash is there already; refused.
    Conflict(ItemId),
}

/// An item as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRecord {
    /// Its id.
    pub id: ItemId,
    /// Where it belongs.
    pub group: ItemGroup,
    /// Its name.
    pub name: String,
    /// Where its bytes are.
    pub content_url: String,
    /// How many there are.
    pub size_bytes: u64,
    /// Their hash.
    pub sha256: String,
    /// Its status.
    pub status: ItemStatus,
    /// How often it was rejected; never goes down.
    pub upload_attempts: u32,
    /// The count at the last reset by an operator.
    pub attempts_at_reset: u32,
    /// Why it was last rejected.
    pub rejection_reason: Option<String>,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// A step in the life of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemMove {
    /// The item.
    pub id: ItemId,
    /// What happened. The item must be in the one status from which this is legal.
    pub event: ItemEvent,
    /// Why it was rejected, if it was; otherwise the last reason stays.
    pub rejection_reason: Option<Message>,
    /// When.
    pub at: Timestamp,
    /// What the journal says of it, in the same transaction.
    pub journal: Option<JournalEntry>,
}

impl ItemMove {
    /// The status from which the move is legal, and the one it leads to.
    pub fn from_to(&self) -> Result<(ItemStatus, ItemStatus)> {
        ItemStatus::ALL
            .into_iter()
            .find_map(|from| from.apply(self.event).ok().map(|to| (from, to)))
            .ok_or_else(|| Error::misuse("moving items", "the event is never legal"))
    }
}

/// The items of a store.
#[async_trait]
pub trait Items: Send + Sync {
    /// Adds items as pending. Items that [`NewItem::check`] refuses are refused with their whole batch.
    async fn add_items(&self, items: &[NewItem], now: Timestamp) -> Result<Vec<AddedItem>>;

    /// Items by id; unknown ids are left out.
    async fn items_by_id(&self, ids: &[ItemId]) -> Result<Vec<ItemRecord>>;

    /// The pending items of a group by id, after an id, a page at a time.
    async fn pending_items(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>>;

    /// Counts a rejection and returns the new count, or `None` for an unknown item. One statement,
    /// and the only thing that changes the column (UPL-4).
    async fn increment_upload_attempts(&self, id: ItemId) -> Result<Option<u32>>;

    /// Moves items along, each by itself, guarded by the status it must be in. A reset records the
    /// count it happened at.
    async fn move_items(&self, moves: &[ItemMove]) -> Result<Vec<Written>>;
}
