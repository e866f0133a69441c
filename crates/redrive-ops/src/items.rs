//! Items of uploads: add an item, reset items that were given up.

use redrive_core::{ItemEvent, ItemId, ItemStatus, Unit};
use redrive_engine::{ContentError, NewContent, RunMode};
use redrive_store::{
    AddedItem, ItemFilter, ItemGroup, ItemMove, ItemRecord, JournalEntry, Operator, Result, Written,
};
use serde_json::json;

use crate::{Ops, views::ItemChangeView};

const BATCH: u32 = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemSelection {
    Ids(Vec<ItemId>),
    /// The items of a group that were given up.
    Group(ItemGroup),
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

    /// Makes items pending again that were given up. Without an operator this is a dry run. The journal gets an entry
    /// for each item, because a reset overrides a decision of the policy.
    pub async fn reset_items(
        &self,
        ids: &[ItemId],
        by: Option<&Operator>,
    ) -> Result<Vec<ItemChangeView>> {
        let mut rows = Vec::new();
        for ids in ids.chunks(BATCH as usize) {
            rows.extend(self.reset_batch(ids, by).await?);
        }
        Ok(rows)
    }

    async fn reset_batch(
        &self,
        ids: &[ItemId],
        by: Option<&Operator>,
    ) -> Result<Vec<ItemChangeView>> {
        let items = self.store().items_by_id(ids).await?;
        let (given_up, others): (Vec<&ItemRecord>, Vec<&ItemRecord>) =
            items.iter().partition(|item| item.status == ItemStatus::UploadGiveup);
        let (written, mode) = match by {
            None => (vec![Written::Applied; given_up.len()], RunMode::DryRun),
            Some(by) => {
                let moves: Vec<ItemMove> =
                    given_up.iter().map(|item| reset_move(item, by)).collect();
                (self.store().move_items(&moves).await?, RunMode::Real)
            }
        };
        let mut rows: Vec<ItemChangeView> = given_up
            .iter()
            .zip(written)
            .map(|(item, written)| match written {
                Written::Applied => ItemChangeView::reset(item, mode),
                Written::Stale => {
                    ItemChangeView::refused(item, "the item has changed meanwhile".to_owned())
                }
            })
            .collect();
        let refused = |item: &&ItemRecord| {
            ItemChangeView::refused(item, format!("the item is {}", item.status))
        };
        rows.extend(others.iter().map(refused));
        let unknown = ids.iter().filter(|id| items.iter().all(|item| item.id != **id));
        rows.extend(unknown.map(|id| ItemChangeView::unknown(*id)));
        rows.sort_unstable_by_key(|row| row.id);
        Ok(rows)
    }
}

fn reset_move(item: &ItemRecord, by: &Operator) -> ItemMove {
    let details = json!({ "attempts": item.upload_attempts, "reason": by.reason });
    ItemMove {
        id: item.id,
        event: ItemEvent::Reset,
        rejection_reason: None,
        at: by.at,
        attempt: None,
        journal: Some(JournalEntry {
            at: by.at,
            actor: by.actor.clone(),
            action: "upload.reset".to_owned(),
            unit: Some(Unit::Item(item.id).to_string()),
            filter: None,
            details: details.to_string(),
            dedupe_key: None,
        }),
    }
}
