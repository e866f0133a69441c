//! Reads partitions and what else their invariants need.

use async_trait::async_trait;
use redrive_core::{PartitionId, Unit};
use redrive_store::{
    AttemptRecord, JournalFilter, PartitionRecord, PartitionWorkRecord, Result, Store, UnitKind,
};
use serde_json::Value;

use crate::checks::{
    checker::{Finding, Invariant, Report},
    ledger_reader::PAGE,
    partition_invariants::check_partition,
    unit_checks::CheckedUnit,
};

#[async_trait]
impl CheckedUnit for PartitionRecord {
    const KIND: UnitKind = UnitKind::Partition;

    fn id(&self) -> i64 {
        self.id.0
    }

    fn count(report: &mut Report) -> &mut u64 {
        &mut report.partitions
    }

    async fn page(store: &dyn Store, after: i64) -> Result<Vec<Self>> {
        store.partitions_by_id(PartitionId(after), PAGE).await
    }

    async fn find(store: &dyn Store, id: i64) -> Result<Option<Self>> {
        let mut next = store.partitions_by_id(PartitionId(id.saturating_sub(1)), 1).await?;
        Ok(next.pop().filter(|partition| partition.id.0 == id))
    }

    async fn check(&self, store: &dyn Store, attempts: &[AttemptRecord]) -> Result<Vec<Finding>> {
        let mut findings = check_partition(self, attempts);
        let unit = Unit::Partition(self.key.clone()).to_string();
        if let Some(work) = self.work.as_ref().filter(|work| work.lease_epoch.0 > 0) {
            findings.extend(releases(store, unit, work).await?);
        }
        Ok(findings)
    }
}

/// A row of work is deleted with the verdict. While the row exists, every claim except a current one was
/// released.
async fn releases(
    store: &dyn Store,
    unit: String,
    work: &PartitionWorkRecord,
) -> Result<Option<Finding>> {
    let ended = work.lease_epoch.0 - i64::from(work.lease_owner.is_some());
    let action = Some("partition.handback".to_owned());
    let filter = JournalFilter { unit: Some(unit.clone()), action };
    let (mut after, mut recorded) = (0, 0);
    loop {
        let page = store.journal_page(&filter, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        let of_this = |details: &str| {
            let details: Value = serde_json::from_str(details).unwrap_or_default();
            details.get("work").and_then(Value::as_i64) == Some(work.id)
        };
        recorded += page.iter().filter(|record| of_this(&record.entry.details)).count() as i64;
    }
    Ok((recorded != ended).then(|| Finding {
        invariant: Invariant::ReleaseRecorded,
        unit,
        problem: format!(
            "{ended} claims ended without an attempt, but the journal has {recorded} releases"
        ),
    }))
}
