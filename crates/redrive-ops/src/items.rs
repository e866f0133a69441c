//! Items of uploads: add and replace them, reset, drop and mark them.

use std::{collections::HashMap, time::Duration};

use redrive_core::{ItemEvent, ItemId, ItemStatus, Unit};
use redrive_engine::{ContentError, GroupBusy, GroupLease, KeptContent, NewContent, RunMode};
use redrive_store::{
    AddedItem, ItemFilter, ItemGroup, ItemMove, ItemRecord, JournalEntry, Operator, Result,
    WorkerId, Written,
};
use serde_json::{Value, json};

use crate::{Ops, views::ItemChangeView};

const BATCH: u32 = 1_000;

/// How long a change may hold a group.
const OPERATOR_LEASE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemSelection {
    Ids(Vec<ItemId>),
    /// The items of a group that were given up.
    Group(ItemGroup),
}

/// What an operator does to items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemAction {
    /// Makes items pending again that were given up.
    Reset,
    /// Removes items that were not acknowledged from their group.
    Drop,
    /// Notes that the receiver vouches for an acknowledged item.
    Trust,
    /// Notes that the receiver refused an acknowledged item.
    Refuse,
}

/// Why an item does not get new content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    #[error("the item has this content already")]
    SameContent,
    /// Sending the same content again is a reset.
    #[error(
        "the item has this content already and was given up; `uploads reset {0}` sends the same content again"
    )]
    SameContentGivenUp(ItemId),
    #[error(
        "the item is {0}: an acknowledged item is never replaced; add the content under another name"
    )]
    Acknowledged(ItemStatus),
    #[error("the group is being uploaded by {0}; replace the item afterwards")]
    Busy(GroupBusy),
    #[error("the item has changed meanwhile; try again")]
    Changed,
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddItemError {
    #[error("the item name is not allowed")]
    Name(#[source] redrive_store::Error),
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

impl Ops {
    /// Stores the content, then adds the item: an item never lacks its content.
    pub async fn add_item(
        &self,
        group: ItemGroup,
        name: String,
        content: NewContent,
        by: &Operator,
    ) -> std::result::Result<AddedItem, AddItemError> {
        group.check_name(&name).map_err(AddItemError::Name)?;
        let kept = self.content().keep(content).await?;
        let item = kept.into_item(group, name).map_err(AddItemError::Name)?;
        let mut added = self.store().add_items(&[item], by).await?;
        added.pop().ok_or_else(|| {
            let what = "the store returned no result for the item";
            AddItemError::Store(redrive_store::Error::misuse("adding items", what))
        })
    }

    /// The ids of a selection, sorted and unique, at most `max`.
    pub async fn select_items(&self, selection: &ItemSelection, max: usize) -> Result<Vec<ItemId>> {
        let mut ids = match selection {
            ItemSelection::Ids(ids) => ids.clone(),
            ItemSelection::Group(group) => self.given_up_items(group, max).await?,
        };
        ids.sort_unstable();
        ids.dedup();
        ids.truncate(max);
        Ok(ids)
    }

    async fn given_up_items(&self, group: &ItemGroup, max: usize) -> Result<Vec<ItemId>> {
        let filter = ItemFilter {
            upload: Some(group.upload.clone()),
            group: Some(group.group.clone()),
            status: Some(ItemStatus::UploadGiveup),
        };
        let (mut ids, mut after) = (Vec::new(), ItemId(0));
        while ids.len() < max {
            let page = self.store().items_page(&filter, after, BATCH).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            ids.extend(page.iter().map(|item| item.id));
        }
        Ok(ids)
    }

    /// The item of a name in a group.
    pub async fn find_item(&self, group: &ItemGroup, name: &str) -> Result<Option<ItemRecord>> {
        let filter = ItemFilter {
            upload: Some(group.upload.clone()),
            group: Some(group.group.clone()),
            status: None,
        };
        let mut after = ItemId(0);
        loop {
            let page = self.store().items_page(&filter, after, BATCH).await?;
            let Some(last) = page.last() else { return Ok(None) };
            after = last.id;
            if let Some(item) = page.into_iter().find(|item| item.name == name) {
                return Ok(Some(item));
            }
        }
    }

    /// Gives an item new content (FIX-1): it is pending, and its attempts are counted from then on. The attempts stay in
    /// the ledger, and the journal keeps what the content was. Nobody may send the group meanwhile.
    pub async fn replace_item(
        &self,
        item: &ItemRecord,
        content: KeptContent,
        by: &Operator,
    ) -> std::result::Result<(), ReplaceError> {
        let same = content.sha256 == item.sha256 && content.url == item.content_url;
        if same {
            return Err(match item.status {
                ItemStatus::UploadGiveup => ReplaceError::SameContentGivenUp(item.id),
                _ => ReplaceError::SameContent,
            });
        }
        if !matches!(item.status, ItemStatus::Pending | ItemStatus::UploadGiveup) {
            return Err(ReplaceError::Acknowledged(item.status));
        }
        let lease = self.hold_group(&item.group, by).await?.map_err(ReplaceError::Busy)?;
        let details = json!({
            "upload": item.group.upload,
            "group": item.group.group,
            "name": item.name,
            "size_bytes": content.size_bytes,
            "sha256": content.sha256,
            "replaced": {
                "content_url": item.content_url,
                "size_bytes": item.size_bytes,
                "sha256": item.sha256,
                "attempts": item.upload_attempts,
            },
            "reason": by.reason,
        });
        let replace = ItemMove {
            if_sha256: Some(item.sha256.clone()),
            content: Some(content.into()),
            journal: Some(journal_entry("upload.replace", item, details, by)),
            ..ItemMove::new(item.id, ItemEvent::Replace, by.at)
        };
        // Only a pending item is replaced, so one that was given up is reset first.
        let reset = (item.status == ItemStatus::UploadGiveup).then(|| ItemMove {
            if_sha256: Some(item.sha256.clone()),
            ..ItemMove::new(item.id, ItemEvent::Reset, by.at)
        });
        let moves: Vec<ItemMove> = reset.into_iter().chain([replace]).collect();
        let written = self.store().move_items(&moves).await;
        _ = lease.release("replaced", by.at).await;
        match written?.last() {
            Some(Written::Applied) => Ok(()),
            _ => Err(ReplaceError::Changed),
        }
    }

    /// Holds a group, so that nobody sends its items while they are changed.
    async fn hold_group(
        &self,
        group: &ItemGroup,
        by: &Operator,
    ) -> Result<std::result::Result<GroupLease, GroupBusy>> {
        let owner = WorkerId(format!("operator {}", by.actor));
        GroupLease::take(self.store().clone(), group, owner, OPERATOR_LEASE).await
    }

    /// Changes items. Without an operator this is a dry run. The journal gets an entry for each item.
    pub async fn change_items(
        &self,
        ids: &[ItemId],
        action: ItemAction,
        by: Option<&Operator>,
    ) -> Result<Vec<ItemChangeView>> {
        let mut rows = Vec::new();
        for ids in ids.chunks(BATCH as usize) {
            rows.extend(self.change_batch(ids, action, by).await?);
        }
        Ok(rows)
    }

    async fn change_batch(
        &self,
        ids: &[ItemId],
        action: ItemAction,
        by: Option<&Operator>,
    ) -> Result<Vec<ItemChangeView>> {
        let items = self.store().items_by_id(ids).await?;
        let (meant, others): (Vec<&ItemRecord>, Vec<&ItemRecord>) =
            items.iter().partition(|item| action.allows(item.status));
        let mode = if by.is_some() { RunMode::Real } else { RunMode::DryRun };
        let mut rows: Vec<ItemChangeView> = match (by, action) {
            (None, _) => {
                meant.iter().map(|item| ItemChangeView::done(item, action, mode)).collect()
            }
            (Some(by), ItemAction::Drop) => self.drop_items(&meant, by).await?,
            (Some(by), _) => {
                let moves: Vec<ItemMove> =
                    meant.iter().map(|item| action.to_move(item, by)).collect();
                let written = self.store().move_items(&moves).await?;
                let changes = meant.iter().zip(written);
                changes.map(|(item, written)| change_view(item, action, written)).collect()
            }
        };
        let refused =
            |item: &&ItemRecord| ItemChangeView::refused(item, action.refusal(item.status));
        rows.extend(others.iter().map(refused));
        let unknown = ids.iter().filter(|id| items.iter().all(|item| item.id != **id));
        rows.extend(unknown.map(|id| ItemChangeView::unknown(*id)));
        rows.sort_unstable_by_key(|row| row.id);
        Ok(rows)
    }

    /// Drops items group by group, each while nobody sends it.
    async fn drop_items(
        &self,
        items: &[&ItemRecord],
        by: &Operator,
    ) -> Result<Vec<ItemChangeView>> {
        let mut groups: HashMap<&ItemGroup, Vec<&ItemRecord>> = HashMap::new();
        for item in items {
            groups.entry(&item.group).or_default().push(item);
        }
        let mut rows = Vec::new();
        for (group, items) in groups {
            let lease = match self.hold_group(group, by).await? {
                Ok(lease) => lease,
                Err(busy) => {
                    let why = format!("the group is being uploaded by {busy}; drop it afterwards");
                    rows.extend(
                        items.iter().map(|item| ItemChangeView::refused(item, why.clone())),
                    );
                    continue;
                }
            };
            let drops: Vec<(ItemId, JournalEntry)> =
                items.iter().map(|item| (item.id, ItemAction::Drop.entry(item, by))).collect();
            let written = self.store().drop_items(&drops).await;
            _ = lease.release("dropped", by.at).await;
            let changes = items.iter().zip(written?);
            rows.extend(
                changes.map(|(item, written)| change_view(item, ItemAction::Drop, written)),
            );
        }
        Ok(rows)
    }
}

fn change_view(item: &ItemRecord, action: ItemAction, written: Written) -> ItemChangeView {
    match written {
        Written::Applied => ItemChangeView::done(item, action, RunMode::Real),
        Written::Stale => {
            ItemChangeView::refused(item, "the item has changed meanwhile".to_owned())
        }
    }
}

fn journal_entry(action: &str, item: &ItemRecord, details: Value, by: &Operator) -> JournalEntry {
    JournalEntry {
        at: by.at,
        actor: by.actor.clone(),
        action: action.to_owned(),
        unit: Some(Unit::Item(item.id).to_string()),
        filter: None,
        details: details.to_string(),
        dedupe_key: None,
    }
}

impl ItemAction {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Drop => "drop",
            Self::Trust => "trust",
            Self::Refuse => "refuse",
        }
    }

    fn allows(self, status: ItemStatus) -> bool {
        match self {
            Self::Reset => status == ItemStatus::UploadGiveup,
            Self::Drop => matches!(status, ItemStatus::Pending | ItemStatus::UploadGiveup),
            Self::Trust | Self::Refuse => status == ItemStatus::Uploaded,
        }
    }

    /// Why an item of this status is not changed, and which command is right (FIX-6).
    fn refusal(self, status: ItemStatus) -> String {
        let right = match (self, status) {
            (Self::Reset, ItemStatus::Pending) => "; `uploads run` sends it",
            (Self::Reset | Self::Drop, _) => "; an acknowledged item is never sent again",
            (Self::Trust | Self::Refuse, ItemStatus::Trusted | ItemStatus::Rejected) => {
                "; the mark is final"
            }
            (Self::Trust | Self::Refuse, ItemStatus::UploadGiveup) => {
                "; only an acknowledged item can be marked: `uploads reset` makes it pending"
            }
            (Self::Trust | Self::Refuse, _) => {
                "; only an acknowledged item can be marked: `uploads run` sends it"
            }
        };
        format!("the item is {status}{right}")
    }

    fn to_move(self, item: &ItemRecord, by: &Operator) -> ItemMove {
        let event = match self {
            Self::Trust => ItemEvent::Trust,
            Self::Refuse => ItemEvent::Refuse,
            Self::Reset | Self::Drop => ItemEvent::Reset,
        };
        ItemMove { journal: Some(self.entry(item, by)), ..ItemMove::new(item.id, event, by.at) }
    }

    fn entry(self, item: &ItemRecord, by: &Operator) -> JournalEntry {
        let ItemGroup { upload, group } = &item.group;
        let details = match self {
            Self::Reset => json!({ "attempts": item.upload_attempts, "reason": by.reason }),
            Self::Drop => json!({
                "upload": upload,
                "group": group,
                "name": item.name,
                "status": item.status.name(),
                "content_url": item.content_url,
                "sha256": item.sha256,
                "attempts": item.upload_attempts,
                "reason": by.reason,
            }),
            Self::Trust | Self::Refuse => json!({ "reason": by.reason }),
        };
        journal_entry(&format!("upload.{}", self.name()), item, details, by)
    }
}
