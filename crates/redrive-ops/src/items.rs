//! Items of uploads: add and replace them, reset, drop and mark them.

use std::time::Duration;

use redrive_core::{ItemEvent, ItemId, ItemStatus, Unit};
use redrive_engine::{ContentError, GroupBusy, GroupLease, KeptContent, NewContent};
use redrive_store::{
    AddedItem, ItemGroup, ItemMove, ItemRecord, JournalEntry, JournalFilter, JournalRecord,
    Operator, Result, Selection, Store, WorkerId, Written,
};
use serde_json::{Value, json};

use crate::Ops;

const BATCH: u32 = 1_000;

/// How long a change may hold a group.
const OPERATOR_LEASE: Duration = Duration::from_secs(30);

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

/// How many items of a group were dropped, as the journal says.
pub async fn dropped_items(store: &dyn Store, group: &ItemGroup) -> Result<usize> {
    let filter = JournalFilter { unit: None, action: Some("upload.drop".to_owned()) };
    let is_of_group = |row: &JournalRecord| {
        let details: Value = serde_json::from_str(&row.entry.details).unwrap_or_default();
        let of = |name: &str| details.get(name).and_then(Value::as_str);
        of("upload") == Some(group.upload.as_str()) && of("group") == Some(group.group.as_str())
    };
    let (mut dropped, mut after) = (0, 0);
    loop {
        let page = store.journal_page(&filter, after, BATCH).await?;
        let Some(last) = page.last() else { return Ok(dropped) };
        after = last.id;
        dropped += page.iter().filter(|row| is_of_group(row)).count();
    }
}

impl Ops {
    /// Who dropped an item, and when; `None` if nobody did.
    pub async fn drop_of(&self, id: ItemId) -> Result<Option<String>> {
        let unit = Unit::Item(id).to_string();
        let action = Some("upload.drop".to_owned());
        let filter = JournalFilter { unit: Some(unit.clone()), action };
        let found = self.store().journal_page(&filter, 0, 1).await?.pop();
        Ok(found.map(|JournalRecord { entry, .. }| {
            let details: Value = serde_json::from_str(&entry.details).unwrap_or_default();
            let of = |name: &str| details.get(name).and_then(Value::as_str).unwrap_or_default();
            let reason = of("reason");
            let because = if reason.is_empty() { "" } else { ": " };
            format!(
                "{unit}, {:?} of group {:?} of upload {:?}, was dropped at {} by {}{because}{reason}",
                of("name"),
                of("group"),
                of("upload"),
                entry.at,
                entry.actor
            )
        }))
    }

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

    /// The item of a name in a group.
    pub async fn find_item(&self, group: &ItemGroup, name: &str) -> Result<Option<ItemRecord>> {
        let filter = Selection {
            upload: Some(group.upload.clone()),
            group: Some(group.group.clone()),
            ..Selection::default()
        };
        let mut after = ItemId(0);
        loop {
            let page = self.store().items_page(&filter, after, BATCH.into()).await?;
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
        check_replacement(item, &content)?;
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
    pub(crate) async fn hold_group(
        &self,
        group: &ItemGroup,
        by: &Operator,
    ) -> Result<std::result::Result<GroupLease, GroupBusy>> {
        let owner = WorkerId(format!("operator {}", by.actor));
        GroupLease::take(self.store().clone(), group, owner, OPERATOR_LEASE).await
    }
}

/// Whether an item may get this content, if nobody sends its group.
pub fn check_replacement(
    item: &ItemRecord,
    content: &KeptContent,
) -> std::result::Result<(), ReplaceError> {
    let same = content.sha256 == item.sha256;
    match item.status {
        ItemStatus::UploadGiveup if same => Err(ReplaceError::SameContentGivenUp(item.id)),
        _ if same && content.url == item.content_url => Err(ReplaceError::SameContent),
        ItemStatus::Pending | ItemStatus::UploadGiveup => Ok(()),
        status => Err(ReplaceError::Acknowledged(status)),
    }
}

pub(crate) fn journal_entry(
    action: &str,
    item: &ItemRecord,
    details: Value,
    by: &Operator,
) -> JournalEntry {
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
