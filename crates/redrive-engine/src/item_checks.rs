//! Checking every item of a store beside its ledger.

use redrive_core::{ItemId, ItemStatus, Unit};
use redrive_store::{
    AttemptRecord, ItemFilter, ItemRecord, JournalFilter, Result, Store, UnitKind, UnitRow,
};

use crate::{
    checker::{Finding, Invariant, MAX_FINDINGS, REREADS, Report},
    item_invariants::judge_item,
    ledger_reader::{LedgerReader, PAGE, all_attempts},
};

pub(crate) async fn check_items(store: &dyn Store, report: &mut Report) -> Result<()> {
    let mut ledger = LedgerReader::new(store, UnitKind::Item);
    let (everything, mut after) = (ItemFilter::default(), ItemId(0));
    loop {
        let page = store.items_page(&everything, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        for item in &page {
            let (orphans, attempts) = ledger.attempts_up_to(item.id.0).await?;
            report.items += 1;
            report.attempts += (attempts.len() + orphans.len()) as u64;
            report.add(orphans.iter().map(orphan).collect());
            let findings = judge(store, item, &attempts).await?;
            if findings.is_empty() {
                continue;
            }
            // Past the limit they are only counted: looking twice at a million would take for ever.
            let full = report.findings.len() >= MAX_FINDINGS;
            report.add(if full { findings } else { judge_again(store, item.id).await? });
        }
    }
    // What is left belongs to items added since; only an item that does not exist is an orphan.
    for attempt in ledger.rest(MAX_FINDINGS).await? {
        report.attempts += 1;
        if store.items_by_id(&[ItemId(attempt.unit.id)]).await?.is_empty() {
            report.add(vec![orphan(&attempt)]);
        }
    }
    Ok(())
}

fn orphan(attempt: &AttemptRecord) -> Finding {
    Finding {
        invariant: Invariant::LedgerNumbers,
        unit: attempt.unit.to_string(),
        problem: format!("attempt {} belongs to no item", attempt.attempt),
    }
}

async fn judge(
    store: &dyn Store,
    item: &ItemRecord,
    attempts: &[AttemptRecord],
) -> Result<Vec<Finding>> {
    let mut findings = judge_item(item, attempts);
    if item.status == ItemStatus::UploadGiveup {
        let unit = Unit::Item(item.id).to_string();
        let action = Some("upload.giveup".to_owned());
        let filter = JournalFilter { unit: Some(unit.clone()), action };
        if store.journal_page(&filter, 0, 1).await?.is_empty() {
            findings.push(Finding {
                invariant: Invariant::GiveUpRecorded,
                unit,
                problem: "it was given up, and the journal does not say why".to_owned(),
            });
        }
    }
    Ok(findings)
}

/// Reads an item and its attempts until the item stands still between two looks.
async fn judge_again(store: &dyn Store, id: ItemId) -> Result<Vec<Finding>> {
    for _ in 0..REREADS {
        let Some(before) = store.items_by_id(&[id]).await?.pop() else { return Ok(Vec::new()) };
        let attempts = all_attempts(store, UnitRow::new(UnitKind::Item, id.0)).await?;
        let findings = judge(store, &before, &attempts).await?;
        let after = store.items_by_id(&[id]).await?.pop();
        if findings.is_empty() || after.as_ref() == Some(&before) {
            return Ok(findings);
        }
    }
    Ok(Vec::new())
}
