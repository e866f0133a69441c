//! Upload items: files or records that are sent in groups and acknowledged individually.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Epoch, Failure, ItemEvent, ItemId, ItemStatus, Message, PlanId, Unit,
};
use serde::Serialize;
use serde_json::json;

use crate::{
    AttemptOutcome, AttemptRecord, ClaimedGroup, Error, FromRow, GatePass, GateRules, GroupClaim,
    JournalEntry, LeaseRef, LetThrough, MAX_NAME_BYTES, Operator, PageLimit, PassedGates, Result,
    RowReader, Selection, UnitKind, UnitRow, WorkerId, Written,
};

/// The items of one upload call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemGroup {
    /// The name of the upload in the configuration.
    pub upload: String,
    /// The group is uploaded together.
    pub group: String,
}

impl FromRow for ItemGroup {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self { upload: row.get()?, group: row.get()? })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewItem {
    pub group: ItemGroup,
    /// Unique in the group.
    pub name: String,
    pub content_url: String,
    pub size_bytes: u64,
    /// Lower-case hex.
    pub sha256: String,
}

impl ItemGroup {
    /// Rejects names of an item or group that a store cannot keep or that look the same as others.
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
    /// Applies [`ItemGroup::check_name`] to the item.
    pub fn check(&self) -> Result<()> {
        self.group.check_name(&self.name)
    }

    /// The result for an item whose name a stored item has.
    pub fn refused_by(&self, stored: ItemId, sha256: &str) -> AddedItem {
        if self.sha256 == sha256 {
            AddedItem::Duplicate(stored)
        } else {
            AddedItem::Conflict(stored)
        }
    }

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddedItem {
    Accepted(ItemId),
    /// The group has an item with the same name and hash; nothing changed.
    Duplicate(ItemId),
    /// The group has an item with the same name and another hash; nothing changed.
    Conflict(ItemId),
}

/// An item of an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Item))]
pub struct ItemRecord {
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub id: ItemId,
    #[serde(flatten)]
    pub group: ItemGroup,
    /// Unique within the group.
    pub name: String,
    pub content_url: String,
    pub size_bytes: u64,
    /// The SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    pub status: ItemStatus,
    /// The number of rejections; never decreases.
    pub upload_attempts: u32,
    /// The value of `upload_attempts` at the last reset by an operator.
    pub attempts_at_reset: u32,
    /// The number of the last attempt in the ledger; 0 before the first.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub last_attempt: AttemptNumber,
    /// The reason of the last rejection.
    pub rejection_reason: Option<String>,
    pub error_class: Option<String>,
    pub error_code: Option<String>,
    /// Identical for all failures of one cause.
    pub fingerprint: Option<String>,
    pub last_failure_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

impl FromRow for ItemRecord {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            id: ItemId(row.get()?),
            group: ItemGroup::from_row(row)?,
            name: row.get()?,
            content_url: row.get()?,
            size_bytes: row.count("size_bytes")?,
            sha256: row.get()?,
            status: row.named("status", ItemStatus::from_name)?,
            upload_attempts: row.count("upload_attempts")?,
            attempts_at_reset: row.count("attempts_at_reset")?,
            last_attempt: AttemptNumber(row.count("last_attempt")?),
            rejection_reason: row.get()?,
            updated_at: row.timestamp()?,
            error_class: row.get()?,
            error_code: row.get()?,
            fingerprint: row.get()?,
            last_failure_at: row.optional_timestamp()?,
        })
    }
}

/// A transition of an item.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemMove {
    pub id: ItemId,
    /// The item must have a status that allows the event.
    pub event: ItemEvent,
    /// Replaces the last reason; `None` keeps the last reason.
    pub rejection_reason: Option<Message>,
    pub at: Timestamp,
    /// The ledger row, written in the same transaction.
    pub attempt: Option<ItemAttempt>,
    /// The journal entry, written in the same transaction.
    pub journal: Option<JournalEntry>,
    /// The move is stale if the content has another hash by now.
    pub if_sha256: Option<String>,
    /// The new content of an item that is replaced.
    pub content: Option<ItemContent>,
}

/// Where the content of an item is, and what it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemContent {
    pub content_url: String,
    pub size_bytes: u64,
    /// Lower-case hex.
    pub sha256: String,
}

/// A finished attempt to send an item. The store assigns the next attempt number.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemAttempt {
    /// The attempt ended when the item moved.
    pub started_at: Timestamp,
    /// Why the item was not acknowledged; `None` for an acknowledged item.
    pub failure: Option<Failure>,
    pub worker: String,
    /// The item's last attempt when this attempt was sent; the move is stale if there is a newer
    /// one. A rejected item stays pending, so only this number tells whether a rejection was
    /// already written when the response to the write was lost.
    pub after: Option<AttemptNumber>,
    /// The gates that the item has passed; `None` if its upload has none.
    pub gates: Option<ItemPass>,
}

/// How an item passed gates: under the lease of its group.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemPass {
    pub passed: PassedGates,
    pub epoch: Epoch,
    /// How many items of the group are sent at once.
    pub at_once: u32,
}

/// A request to send items of a group behind gates. The key is the group.
#[derive(Debug, Clone)]
pub struct ItemAdmission {
    pub gates: GateRules,
    pub group: String,
    /// None of them is being sent: those that were let through before give back their places.
    pub items: Vec<ItemId>,
    /// How many of them may be let through: the first ones.
    pub limit: u32,
    /// Of the lease on the group.
    pub epoch: Epoch,
    pub owner: WorkerId,
    /// The wall clock, for the periods of the gates.
    pub now: Timestamp,
}

impl ItemAdmission {
    /// The first so many items.
    pub fn units(&self, admitted: u32) -> Vec<LetThrough<'_>> {
        let unit = |item: &ItemId| LetThrough { id: item.0, epoch: self.epoch.0, key: &self.group };
        self.items.iter().take(admitted as usize).map(unit).collect()
    }

    /// Whether places stay free for others.
    pub fn gives_back(&self) -> bool {
        self.items.len() > self.limit as usize
    }

    /// What the items count with for gates that let them through before.
    pub fn permits(&self) -> Vec<LeaseRef> {
        self.items.iter().map(|item| LeaseRef { id: item.0, epoch: self.epoch }).collect()
    }
}

impl ItemMove {
    /// What counts for the gates that the item has passed: the item, under the lease of its group.
    pub fn permit(&self) -> Option<LeaseRef> {
        let pass = self.attempt.as_ref()?.gates.as_ref()?;
        Some(LeaseRef { id: self.id.0, epoch: pass.epoch })
    }

    /// A move without a reason, an attempt, a journal entry or conditions.
    pub fn new(id: ItemId, event: ItemEvent, at: Timestamp) -> Self {
        Self {
            id,
            event,
            rejection_reason: None,
            at,
            attempt: None,
            journal: None,
            if_sha256: None,
            content: None,
        }
    }

    /// The move with the plan that makes it in its journal entry.
    pub fn naming(mut self, plan: PlanId) -> Self {
        self.journal = self.journal.map(|entry| entry.naming(Some(plan)));
        self
    }

    /// Whether attempts are counted from here on.
    pub fn resets(&self) -> bool {
        matches!(self.event, ItemEvent::Reset | ItemEvent::Replace)
    }

    /// The status that the move requires, and the new status.
    pub fn from_to(&self) -> Result<(ItemStatus, ItemStatus)> {
        ItemStatus::ALL
            .into_iter()
            .find_map(|from| from.apply(self.event).ok().map(|to| (from, to)))
            .ok_or_else(|| Error::misuse("moving items", "the event is never legal"))
    }

    /// The ledger row; the store provides the number.
    pub fn ledger_row(&self, number: AttemptNumber) -> Option<AttemptRecord> {
        let attempt = self.attempt.as_ref()?;
        let unit = UnitRow::new(UnitKind::Item, self.id.0);
        let row =
            AttemptRecord::success(unit, number, attempt.started_at, self.at, &attempt.worker);
        Some(match &attempt.failure {
            None => row,
            // A later step decides whether the item is sent again, and writes that to the journal.
            Some(failure) => {
                AttemptRecord { outcome: AttemptOutcome::Retrying, ..row }.with_failure(failure)
            }
        })
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ItemCounts {
    pub pending: u64,
    pub uploaded: u64,
    pub trusted: u64,
    pub rejected: u64,
    pub upload_giveup: u64,
}

impl FromRow for (ItemStatus, u64) {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok((row.named("status", ItemStatus::from_name)?, row.count("count")?))
    }
}

impl FromIterator<(ItemStatus, u64)> for ItemCounts {
    fn from_iter<I: IntoIterator<Item = (ItemStatus, u64)>>(rows: I) -> Self {
        let mut counts = Self::default();
        rows.into_iter().for_each(|(status, count)| counts.add(status, count));
        counts
    }
}

impl ItemCounts {
    pub fn add(&mut self, status: ItemStatus, count: u64) {
        *match status {
            ItemStatus::Pending => &mut self.pending,
            ItemStatus::Uploaded => &mut self.uploaded,
            ItemStatus::Trusted => &mut self.trusted,
            ItemStatus::Rejected => &mut self.rejected,
            ItemStatus::UploadGiveup => &mut self.upload_giveup,
        } += count;
    }

    pub fn total(&self) -> u64 {
        self.pending + self.uploaded + self.trusted + self.rejected + self.upload_giveup
    }
}

#[async_trait]
pub trait Items: Send + Sync {
    /// Adds items as pending, with a journal row for each accepted item. If [`NewItem::check`]
    /// rejects an item, the whole batch is rejected.
    async fn add_items(&self, items: &[NewItem], by: &Operator) -> Result<Vec<AddedItem>>;

    /// Items by id; unknown ids are omitted.
    async fn items_by_id(&self, ids: &[ItemId]) -> Result<Vec<ItemRecord>>;

    /// A page of matching items beyond `after` in the order of the page.
    async fn items_page(
        &self,
        filter: &Selection,
        after: ItemId,
        limit: PageLimit,
    ) -> Result<Vec<ItemRecord>>;

    async fn item_counts(&self, group: &ItemGroup) -> Result<ItemCounts>;

    /// A page of pending items of a group with ids above `after`, by id.
    async fn pending_items(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>>;

    /// Counts a rejection and returns the new count, or `None` if the item is not pending. A single
    /// statement; no other statement changes the column (UPL-4).
    async fn increment_upload_attempts(&self, id: ItemId) -> Result<Option<u32>>;

    /// Removes pending and given-up items, each with its journal entry. Their attempts stay in the ledger.
    async fn drop_items(&self, drops: &[(ItemId, JournalEntry)]) -> Result<Vec<Written>>;

    /// Applies moves, each in isolation and guarded by the required status, with their ledger and
    /// journal rows. A reset and a replacement store the count at which they happened.
    async fn move_items(&self, moves: &[ItemMove]) -> Result<Vec<Written>>;

    /// Takes back the places of items that were not sent, lets the first items through their gates, and returns how each of
    /// them passed.
    async fn admit_items(&self, admission: &ItemAdmission) -> Result<Vec<GatePass>>;

    /// Claims a group that has no lease or whose lease has ended. The lease is renewed and released
    /// as [`Leased::Group`](crate::Leased::Group).
    async fn claim_group(&self, claim: &GroupClaim) -> Result<ClaimedGroup>;
}
