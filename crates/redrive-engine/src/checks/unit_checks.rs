//! Walks all units of one kind together with their ledger rows.

use async_trait::async_trait;
use redrive_store::{AttemptRecord, JournalFilter, Result, Store, UnitKind};

use crate::checks::{
    checker::{Finding, Invariant, MAX_FINDINGS, MAX_REREADS, Report},
    ledger_reader::{LedgerReader, all_attempts},
};

/// A stored unit that the checker can read and check.
#[async_trait]
pub(crate) trait CheckedUnit: PartialEq + Sized + Send + Sync {
    const KIND: UnitKind;

    fn id(&self) -> i64;

    /// The count of this kind in a report.
    fn count(report: &mut Report) -> &mut u64;

    /// A page of units ordered by id, greater than `after`.
    async fn page(store: &dyn Store, after: i64) -> Result<Vec<Self>>;

    async fn find(store: &dyn Store, id: i64) -> Result<Option<Self>>;

    /// Whether an operator removed the unit; its attempts stay in the ledger.
    async fn was_removed(_store: &dyn Store, _id: i64) -> Result<bool> {
        Ok(false)
    }

    /// What is wrong with the unit, given all of its attempts.
    async fn check(&self, store: &dyn Store, attempts: &[AttemptRecord]) -> Result<Vec<Finding>>;
}

pub(crate) async fn check_units<C: CheckedUnit>(
    store: &dyn Store,
    report: &mut Report,
) -> Result<()> {
    let mut ledger = LedgerReader::new(store, C::KIND);
    let mut after = 0;
    loop {
        let page = C::page(store, after).await?;
        let Some(last) = page.last() else { break };
        after = last.id();
        for unit in &page {
            let (orphans, attempts) = ledger.attempts_up_to(unit.id()).await?;
            *C::count(report) += 1;
            report.attempts += (attempts.len() + orphans.len()) as u64;
            for attempt in &orphans {
                report.add(orphan::<C>(store, attempt).await?);
            }
            let findings = unit.check(store, &attempts).await?;
            if findings.is_empty() {
                continue;
            }
            // Findings beyond the maximum are only counted: reading a million units twice takes too long.
            let full = report.findings.len() >= MAX_FINDINGS;
            report.add(if full { findings } else { recheck::<C>(store, unit.id()).await? });
        }
    }
    // The remaining attempts may belong to units created meanwhile; without a unit they are orphans.
    for attempt in ledger.rest(MAX_FINDINGS).await? {
        report.attempts += 1;
        if C::find(store, attempt.unit.id).await?.is_none() {
            report.add(orphan::<C>(store, &attempt).await?);
        }
    }
    Ok(())
}

async fn orphan<C: CheckedUnit>(
    store: &dyn Store,
    attempt: &AttemptRecord,
) -> Result<Vec<Finding>> {
    if C::was_removed(store, attempt.unit.id).await? {
        return Ok(Vec::new());
    }
    Ok(vec![Finding {
        invariant: Invariant::LedgerNumbers,
        unit: attempt.unit.to_string(),
        problem: format!("attempt {} belongs to no {}", attempt.attempt, attempt.unit.kind.name()),
    }])
}

/// A finding if the journal has no entry of this action for a unit that was given up.
pub(crate) async fn missing_give_up(
    store: &dyn Store,
    unit: String,
    action: &str,
) -> Result<Option<Finding>> {
    let filter = JournalFilter { unit: Some(unit.clone()), action: Some(action.to_owned()) };
    Ok(store.journal_page(&filter, 0, 1).await?.is_empty().then(|| Finding {
        invariant: Invariant::GiveUpRecorded,
        unit,
        problem: format!("the unit was given up, but the journal has no {action} entry"),
    }))
}

/// Reads a unit and its attempts until the unit does not change between two reads.
async fn recheck<C: CheckedUnit>(store: &dyn Store, id: i64) -> Result<Vec<Finding>> {
    for _ in 0..MAX_REREADS {
        let Some(before) = C::find(store, id).await? else { return Ok(Vec::new()) };
        let attempts = all_attempts(store, C::KIND, id).await?;
        let findings = before.check(store, &attempts).await?;
        let after = C::find(store, id).await?;
        if findings.is_empty() || after.as_ref() == Some(&before) {
            return Ok(findings);
        }
    }
    Ok(Vec::new())
}
