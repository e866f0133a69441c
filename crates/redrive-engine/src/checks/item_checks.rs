//! Reads items and what else their invariants need.

use async_trait::async_trait;
use redrive_core::{ItemId, ItemStatus, Unit};
use redrive_store::{AttemptRecord, ItemRecord, JournalFilter, Result, Selection, Store, UnitKind};

use crate::checks::{
    checker::{Finding, Report},
    item_invariants::check_item,
    ledger_reader::PAGE,
    unit_checks::{CheckedUnit, missing_give_up},
};

#[async_trait]
impl CheckedUnit for ItemRecord {
    const KIND: UnitKind = UnitKind::Item;

    fn id(&self) -> i64 {
        self.id.0
    }

    fn count(report: &mut Report) -> &mut u64 {
        &mut report.items
    }

    async fn page(store: &dyn Store, after: i64) -> Result<Vec<Self>> {
        store.items_page(&Selection::default(), ItemId(after), PAGE.into()).await
    }

    async fn find(store: &dyn Store, id: i64) -> Result<Option<Self>> {
        Ok(store.items_by_id(&[ItemId(id)]).await?.pop())
    }

    async fn was_removed(store: &dyn Store, id: i64) -> Result<bool> {
        let unit = Some(Unit::Item(ItemId(id)).to_string());
        let filter = JournalFilter { unit, action: Some("upload.drop".to_owned()) };
        Ok(!store.journal_page(&filter, 0, 1).await?.is_empty())
    }

    async fn check(&self, store: &dyn Store, attempts: &[AttemptRecord]) -> Result<Vec<Finding>> {
        let mut findings = check_item(self, attempts);
        if self.status == ItemStatus::UploadGiveup {
            let unit = Unit::Item(self.id).to_string();
            findings.extend(missing_give_up(store, unit, "upload.giveup").await?);
        }
        Ok(findings)
    }
}
