//! Compares the counts of causes with the ledger (CAU-5).
//!
//! `redrive prune` removes ledger rows of units of which everything is older than a time, and counts of hours that ended
//! before it. So an hour that began at or after the latest such time has all of its ledger rows and all of its counts,
//! and no earlier hour is compared.

use jiff::{SignedDuration, Timestamp};
use redrive_store::{
    CauseMiscount, JournalEntry, JournalFilter, Result, Store, cause_unit, hour_of,
};
use serde_json::Value;

use crate::checks::{
    checker::{Finding, Invariant, MAX_FINDINGS, MAX_REREADS, Report},
    ledger_reader::PAGE,
};

/// The journal entries of prunes; the time is in their filter.
const PRUNES: [&str; 2] = ["prune.start", "prune.causes"];

pub(crate) async fn check_causes(store: &dyn Store, report: &mut Report) -> Result<()> {
    let mut pruned = pruned_before(store).await?;
    for _ in 0..MAX_REREADS {
        let since = pruned.map(next_full_hour);
        let miscounts = store.miscounted_causes(since, MAX_FINDINGS as u32).await?;
        let after = if miscounts.is_empty() { pruned } else { pruned_before(store).await? };
        if after == pruned {
            report.add(miscounts.iter().map(finding).collect());
            break;
        }
        pruned = after;
    }
    Ok(())
}

/// The latest time up to which a prune may have removed something.
async fn pruned_before(store: &dyn Store) -> Result<Option<Timestamp>> {
    let mut latest = None;
    for action in PRUNES {
        let filter = JournalFilter { unit: None, action: Some(action.to_owned()) };
        let mut after = 0;
        loop {
            let page = store.journal_page(&filter, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            for record in &page {
                // A prune of unknown extent may have removed everything that is older than itself.
                latest = latest.max(extent(&record.entry).or(Some(record.entry.at)));
            }
        }
    }
    Ok(latest)
}

fn extent(prune: &JournalEntry) -> Option<Timestamp> {
    let filter: Value = serde_json::from_str(prune.filter.as_deref()?).ok()?;
    filter.get("before")?.as_str()?.parse().ok()
}

fn next_full_hour(at: Timestamp) -> Timestamp {
    let hour = hour_of(at);
    if hour == at { at } else { hour.checked_add(SignedDuration::from_hours(1)).unwrap_or(at) }
}

fn finding(miscount: &CauseMiscount) -> Finding {
    let CauseMiscount { fingerprint, hour, kind, counted, in_ledger } = miscount;
    let kind = kind.name();
    Finding {
        invariant: Invariant::CauseCounts,
        unit: cause_unit(fingerprint),
        problem: format!(
            "{counted} failed {kind} attempts are counted in the hour from {hour}, but the ledger has \
             {in_ledger}; no retry depends on these counts, which `redrive causes` shows: find out who \
             changed the tables cause_hours or attempts, or report this as a defect of Redrive"
        ),
    }
}
