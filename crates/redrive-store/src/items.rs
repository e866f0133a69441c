//! Items of uploads: files or records that are sent in groups and acknowledged one by one.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{AttemptNumber, Failure, ItemEvent, ItemId, ItemStatus, Message, Unit};
use serde_json::json;

use crate::{
    AttemptOutcome, AttemptRecord, ClaimedGroup, Error, GroupClaim, JournalEntry, MAX_NAME_BYTES,
    Operator, Result, UnitKind, UnitRow, Written,
};

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

impl ItemGroup {
    /// Refuses names of an item and its group that no store could keep, or that nobody could tell apart.
    pub fn check_name(&self, name: &str) -> Result<()> {
        let names = [("upload", &*self.upload), ("group", &*self.group), ("name", name)];
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

impl NewItem {
    /// Refuses it as [`ItemGroup::check_name`] does.
    pub fn check(&self) -> Result<()> {
        self.group.check_name(&self.name)
    }

    /// What the journal says of it once it is accepted.
    pub fn journal_entry(&self, id: ItemId, by: &Operator) -> JournalEntry {
        let ItemGroup { upload, group } = &self.group;
        let details = json!({
            "upload": upload,
            "group": group,
            "name": self.name,
            "size_bytes": self.size_bytes,
            "sha256": self.sha256,
            "reason": by.reason,
        });
        JournalEntry {
            at: by.at,
            actor: by.actor.clone(),
            action: "upload.add".to_owned(),
            unit: Some(Unit::Item(id).to_string()),
            filter: None,
            details: details.to_string(),
            dedupe_key: None,
        }
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
    /// The number of its last attempt in the ledger; 0 before the first.
    pub last_attempt: AttemptNumber,
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
    /// The attempt that ended with it, for the ledger, in the same transaction.
    pub attempt: Option<ItemAttempt>,
    /// What the journal says of it, in the same transaction.
    pub journal: Option<JournalEntry>,
}

/// An attempt to send an item, as it ended. The store gives it the number that comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemAttempt {
    /// When it began. It ended when the item moved.
    pub started_at: Timestamp,
    /// Why it was not acknowledged, if it was not.
    pub failure: Option<Failure>,
    /// Who sent it.
    pub worker: String,
    /// The item's last attempt when it was sent: with another since, the move is refused. A rejection leaves
    /// its item pending, so nothing else tells whether it was written when the answer to that was lost.
    pub after: Option<AttemptNumber>,
}

impl ItemMove {
    /// The status from which the move is legal, and the one it leads to.
    pub fn from_to(&self) -> Result<(ItemStatus, ItemStatus)> {
        ItemStatus::ALL
            .into_iter()
            .find_map(|from| from.apply(self.event).ok().map(|to| (from, to)))
            .ok_or_else(|| Error::misuse("moving items", "the event is never legal"))
    }

    /// The row of the ledger, whose number the store knows.
    pub fn ledger_row(&self, number: AttemptNumber) -> Option<AttemptRecord> {
        let attempt = self.attempt.as_ref()?;
        let unit = UnitRow::new(UnitKind::Item, self.id.0);
        let row =
            AttemptRecord::success(unit, number, attempt.started_at, self.at, &attempt.worker);
        Some(match &attempt.failure {
            None => row,
            // Whether it is ever sent again is decided later, and told in the journal.
            Some(failure) => {
                AttemptRecord { outcome: AttemptOutcome::Retrying, ..row }.with_failure(failure)
            }
        })
    }
}

/// Which items to read. Everything given must match, exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemFilter {
    /// Of this upload.
    pub upload: Option<String>,
    /// Of the groups with this name.
    pub group: Option<String>,
    /// In this status.
    pub status: Option<ItemStatus>,
}

/// How many items of a group have which status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ItemCounts {
    /// Not yet acknowledged.
    pub pending: u64,
    /// Acknowledged.
    pub uploaded: u64,
    /// Vouched for by the receiver.
    pub trusted: u64,
    /// Refused for good by the receiver.
    pub rejected: u64,
    /// Given up.
    pub upload_giveup: u64,
}

impl ItemCounts {
    /// Adds what a store counted.
    pub fn add(&mut self, status: ItemStatus, count: u64) {
        *match status {
            ItemStatus::Pending => &mut self.pending,
            ItemStatus::Uploaded => &mut self.uploaded,
            ItemStatus::Trusted => &mut self.trusted,
            ItemStatus::Rejected => &mut self.rejected,
            ItemStatus::UploadGiveup => &mut self.upload_giveup,
        } += count;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.pending + self.uploaded + self.trusted + self.rejected + self.upload_giveup
    }
}

/// The items of a store.
#[async_trait]
pub trait Items: Send + Sync {
    /// Adds items as pending, each accepted one with its row of the journal. Items that
    /// [`NewItem::check`] refuses are refused with their whole batch.
    async fn add_items(&self, items: &[NewItem], by: &Operator) -> Result<Vec<AddedItem>>;

    /// Items by id; unknown ids are left out.
    async fn items_by_id(&self, ids: &[ItemId]) -> Result<Vec<ItemRecord>>;

    /// Items by id, after an id, a page at a time.
    async fn items_page(
        &self,
        filter: &ItemFilter,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>>;

    /// How many items of a group have which status.
    async fn item_counts(&self, group: &ItemGroup) -> Result<ItemCounts>;

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

    /// Moves items along, each by itself, guarded by the status it must be in, with its rows of
    /// ledger and journal. A reset records the count it happened at.
    async fn move_items(&self, moves: &[ItemMove]) -> Result<Vec<Written>>;

    /// Takes a group, if nobody holds it or its lease has ended. Its lease is renewed and given back
    /// like every other, as [`Leased::Group`](crate::Leased::Group).
    async fn claim_group(&self, claim: &GroupClaim) -> Result<ClaimedGroup>;
}
