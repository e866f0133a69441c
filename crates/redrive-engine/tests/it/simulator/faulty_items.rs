//! Items through the gate and the weather.

use async_trait::async_trait;
use redrive_core::ItemId;
use redrive_store::{
    AddedItem, ClaimedGroup, GatePass, GroupClaim, ItemAdmission, ItemCounts, ItemGroup, ItemMove,
    ItemRecord, Items, JournalEntry, NewItem, Operator, PageLimit, Result, Selection, Written,
};

use super::faulty_store::FaultyStore;

#[async_trait]
impl Items for FaultyStore {
    async fn add_items(&self, items: &[NewItem], by: &Operator) -> Result<Vec<AddedItem>> {
        self.call("add_items", self.inner.add_items(items, by)).await
    }

    async fn items_by_id(&self, ids: &[ItemId]) -> Result<Vec<ItemRecord>> {
        self.call("items_by_id", self.inner.items_by_id(ids)).await
    }

    async fn items_page(
        &self,
        filter: &Selection,
        after: ItemId,
        limit: PageLimit,
    ) -> Result<Vec<ItemRecord>> {
        self.call("items_page", self.inner.items_page(filter, after, limit)).await
    }

    async fn item_counts(&self, group: &ItemGroup) -> Result<ItemCounts> {
        self.call("item_counts", self.inner.item_counts(group)).await
    }

    async fn pending_items(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>> {
        self.call("pending_items", async {
            match &self.mutant {
                Some(mutant) => mutant.pending_items(&*self.inner, group, after, limit).await,
                None => self.inner.pending_items(group, after, limit).await,
            }
        })
        .await
    }

    async fn increment_upload_attempts(&self, id: ItemId) -> Result<Option<u32>> {
        self.call("increment_upload_attempts", async {
            match &self.mutant {
                Some(mutant) => mutant.increment_upload_attempts(&*self.inner, id).await,
                None => self.inner.increment_upload_attempts(id).await,
            }
        })
        .await
    }

    async fn admit_items(&self, admission: &ItemAdmission) -> Result<Vec<GatePass>> {
        self.call("admit_items", self.inner.admit_items(admission)).await
    }

    async fn move_items(&self, moves: &[ItemMove]) -> Result<Vec<Written>> {
        self.call("move_items", async {
            match &self.mutant {
                Some(mutant) => mutant.move_items(&*self.inner, moves).await,
                None => self.inner.move_items(moves).await,
            }
        })
        .await
    }

    async fn drop_items(&self, drops: &[(ItemId, JournalEntry)]) -> Result<Vec<Written>> {
        self.call("drop_items", self.inner.drop_items(drops)).await
    }

    async fn claim_group(&self, claim: &GroupClaim) -> Result<ClaimedGroup> {
        self.call("claim_group", async {
            match &self.mutant {
                Some(mutant) => mutant.claim_group(&*self.inner, claim).await,
                None => self.inner.claim_group(claim).await,
            }
        })
        .await
    }
}
