//! Checking every partition of a store beside its ledger.

use redrive_core::{PartitionId, PartitionKey, Unit};
use redrive_store::{
    AttemptRecord, JournalFilter, PartitionRecord, PartitionWork, Result, Store, UnitKind, UnitRow,
};
use serde_json::Value;

use crate::{
    checker::{Finding, Invariant, MAX_FINDINGS, REREADS, Report},
    ledger_reader::{LedgerReader, PAGE, all_attempts},
    partition_invariants::judge_partition,
};

pub(crate) async fn check_partitions(store: &dyn Store, report: &mut Report) -> Result<()> {
    let mut ledger = LedgerReader::new(store, UnitKind::Partition);
    let mut after = PartitionId(0);
    loop {
        let page = store.partitions_by_id(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        for partition in &page {
            let (orphans, attempts) = ledger.attempts_up_to(partition.id.0).await?;
            report.partitions += 1;
            report.attempts += (attempts.len() + orphans.len()) as u64;
            report.add(orphans.iter().map(orphan).collect());
            let findings = judge(store, partition, &attempts).await?;
            if findings.is_empty() {
                continue;
            }
            // Past the limit they are only counted: looking twice at a million would take for ever.
            let full = report.findings.len() >= MAX_FINDINGS;
            report.add(if full { findings } else { judge_again(store, &partition.key).await? });
        }
    }
    // What is left belongs to partitions made since; only one that does not exist is an orphan.
    for attempt in ledger.rest(MAX_FINDINGS).await? {
        report.attempts += 1;
        let before = PartitionId(attempt.unit.id.saturating_sub(1));
        let there = store.partitions_by_id(before, 1).await?;
        if there.first().is_none_or(|partition| partition.id.0 != attempt.unit.id) {
            report.add(vec![orphan(&attempt)]);
        }
    }
    Ok(())
}

fn orphan(attempt: &AttemptRecord) -> Finding {
    Finding {
        invariant: Invariant::LedgerNumbers,
        unit: attempt.unit.to_string(),
        problem: format!("attempt {} belongs to no partition", attempt.attempt),
    }
}

async fn judge(
    store: &dyn Store,
    partition: &PartitionRecord,
    attempts: &[AttemptRecord],
) -> Result<Vec<Finding>> {
    let mut findings = judge_partition(partition, attempts);
    let unit = Unit::Partition(partition.key.clone()).to_string();
    if let Some(work) = partition.work.as_ref().filter(|work| work.lease_epoch.0 > 0) {
        findings.extend(hand_backs(store, unit, work).await?);
    }
    Ok(findings)
}

/// A row of work goes when its attempt is judged. So every claim of it but a live one was handed back.
async fn hand_backs(
    store: &dyn Store,
    unit: String,
    work: &PartitionWork,
) -> Result<Option<Finding>> {
    let ended = work.lease_epoch.0 - i64::from(work.lease_owner.is_some());
    let action = Some("partition.handback".to_owned());
    let filter = JournalFilter { unit: Some(unit.clone()), action };
    let (mut after, mut told) = (0, 0);
    loop {
        let page = store.journal_page(&filter, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        let of_this = |details: &str| {
            let details: Value = serde_json::from_str(details).unwrap_or_default();
            details.get("work").and_then(Value::as_i64) == Some(work.id)
        };
        told += page.iter().filter(|record| of_this(&record.entry.details)).count() as i64;
    }
    Ok((told != ended).then(|| Finding {
        invariant: Invariant::HandBackRecorded,
        unit,
        problem: format!("{ended} of its claims ended untried, the journal has {told} hand-backs"),
    }))
}

/// Reads a partition and its attempts until the partition stands still between two looks.
async fn judge_again(store: &dyn Store, key: &PartitionKey) -> Result<Vec<Finding>> {
    let keys = std::slice::from_ref(key);
    for _ in 0..REREADS {
        let Some(before) = store.partitions_by_key(keys).await?.pop().flatten() else {
            return Ok(Vec::new());
        };
        let unit = UnitRow::new(UnitKind::Partition, before.id.0);
        let attempts = all_attempts(store, unit).await?;
        let findings = judge(store, &before, &attempts).await?;
        let after = store.partitions_by_key(keys).await?.pop().flatten();
        if findings.is_empty() || after.as_ref() == Some(&before) {
            return Ok(findings);
        }
    }
    Ok(Vec::new())
}
