//! What must hold for an item and its attempts, as a pure function of both.
//!
//! A program with an uploader of its own need not write ledger rows. Then the ledger is not compared.

use redrive_core::{ItemStatus, Unit};
use redrive_store::{AttemptOutcome, AttemptRecord, ItemRecord};

use crate::checks::checker::{Finding, Invariant};

pub(crate) fn check_item(item: &ItemRecord, attempts: &[AttemptRecord]) -> Vec<Finding> {
    let problems = [
        (Invariant::LedgerNumbers, numbers(item, attempts)),
        (Invariant::RetryCount, counts(item, attempts)),
        (Invariant::StatusMatchesLedger, status_matches_ledger(item, attempts)),
    ];
    let finding = |(invariant, problem): (Invariant, Option<String>)| {
        let unit = Unit::Item(item.id).to_string();
        problem.map(|problem| Finding { invariant, unit, problem })
    };
    problems.into_iter().filter_map(finding).collect()
}

fn numbers(item: &ItemRecord, attempts: &[AttemptRecord]) -> Option<String> {
    let gap = attempts.iter().zip(1..).find(|(attempt, expected)| attempt.attempt.0 != *expected);
    if let Some((attempt, expected)) = gap {
        let found = attempt.attempt;
        return Some(format!("the ledger has attempt {found} instead of attempt {expected}"));
    }
    let (rows, last) = (attempts.len(), item.last_attempt.0);
    (rows != last as usize)
        .then(|| format!("last_attempt is {last}, but the ledger has {rows} attempts"))
}

/// A rejection is written to the ledger before it is counted, and a reset cannot exceed the count.
fn counts(item: &ItemRecord, attempts: &[AttemptRecord]) -> Option<String> {
    let ItemRecord { upload_attempts, attempts_at_reset, .. } = item;
    if attempts_at_reset > upload_attempts {
        return Some(format!(
            "attempts_at_reset is {attempts_at_reset}, more than upload_attempts ({upload_attempts})"
        ));
    }
    let rejections =
        attempts.iter().filter(|attempt| attempt.outcome == AttemptOutcome::Retrying).count();
    (!attempts.is_empty() && *upload_attempts as usize > rejections).then(|| {
        format!("upload_attempts is {upload_attempts}, but the ledger has {rejections} rejections")
    })
}

/// An item is uploaded if and only if its last attempt, and no other, was acknowledged.
fn status_matches_ledger(item: &ItemRecord, attempts: &[AttemptRecord]) -> Option<String> {
    let last = attempts.last()?;
    let acknowledged =
        attempts.iter().filter(|attempt| attempt.outcome == AttemptOutcome::Success).count();
    let uploaded = match item.status {
        ItemStatus::Uploaded | ItemStatus::Trusted | ItemStatus::Rejected => true,
        ItemStatus::Pending | ItemStatus::UploadGiveup => false,
    };
    let at_last = last.outcome == AttemptOutcome::Success;
    match (uploaded, acknowledged, at_last) {
        (true, 1, true) | (false, 0, _) => None,
        _ => {
            Some(format!("the item is {}, but was acknowledged {acknowledged} times", item.status))
        }
    }
}
