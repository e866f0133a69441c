//! What must be true of items, by what the server received.

use std::collections::{BTreeMap, BTreeSet};

use redrive::{jiff::Timestamp, store::UnitKind};

use super::{case::Case, faults::Fault, site::Receipt};

/// All of them.
pub(super) const ITEM_RULES: [super::rules::Rule; 4] = [
    ("an item is acknowledged by the store only if it was by the server", acknowledged),
    ("what was acknowledged is not sent again", not_again),
    ("each attempt at an item is written once, and was made", written_once),
    ("an item has one key", one_key),
];

/// Receipts by the name of the item, which is in one group alone.
fn receipts<'a>(case: &Case<'a>) -> BTreeMap<&'a str, Vec<&'a Receipt>> {
    let mut receipts: BTreeMap<&str, Vec<&Receipt>> = BTreeMap::new();
    for receipt in &case.evidence.receipts {
        receipts.entry(&receipt.name).or_default().push(receipt);
    }
    receipts
}

/// The names of items by their units.
fn names<'a>(case: &Case<'a>) -> BTreeMap<&'a str, &'a str> {
    let items = case.evidence.items.iter();
    items.map(|((_, name), item)| (item.unit.as_str(), name.as_str())).collect()
}

fn acknowledged(case: &Case<'_>) -> Vec<String> {
    let receipts = receipts(case);
    let mut against = Vec::new();
    for ((_, name), item) in &case.evidence.items {
        let by_server = receipts.get(name.as_str()).into_iter().flatten();
        if item.status == "uploaded" && !by_server.into_iter().any(|it| it.acknowledged) {
            against.push(format!("{} ({name})", item.unit));
        }
    }
    against
}

/// An answer is written when it is there. Only where the store could not be written to, or the process did
/// not run, may the same item have been sent again meanwhile.
fn not_again(case: &Case<'_>) -> Vec<String> {
    let (receipts, names) = (receipts(case), names(case));
    let excused = |from: Timestamp, until: Timestamp| {
        let kept_from_writing = |fault| !matches!(fault, Fault::Killed | Fault::Stopped);
        let incidents = case.incidents.iter().filter(|it| kept_from_writing(it.fault));
        incidents.into_iter().any(|it| it.from <= until && it.until >= from)
    };
    let mut against = Vec::new();
    let rows = case.evidence.attempts.iter().filter(|row| row.kind == UnitKind::Item);
    for row in rows.filter(|row| row.is_done()) {
        let name = names[row.execution.unit.as_str()];
        for receipt in receipts.get(name).into_iter().flatten() {
            if receipt.at > row.ended_at && !excused(row.ended_at, receipt.at) {
                against.push(format!("{name} was sent again at {}: {row:?}", receipt.at));
            }
        }
    }
    against
}

fn written_once(case: &Case<'_>) -> Vec<String> {
    let (receipts, names) = (receipts(case), names(case));
    let mut seen = BTreeSet::new();
    let mut rows_of: BTreeMap<&str, usize> = BTreeMap::new();
    let mut against = Vec::new();
    for row in case.evidence.attempts.iter().filter(|row| row.kind == UnitKind::Item) {
        let unit = row.execution.unit.as_str();
        if !seen.insert((unit, &row.worker, row.started_at)) {
            against.push(format!("written twice: {row:?}"));
        }
        *rows_of.entry(unit).or_default() += 1;
    }
    for (unit, rows) in rows_of {
        let received = receipts.get(names[unit]).map_or(0, Vec::len);
        if rows > received {
            against.push(format!("{unit} has {rows} attempts and was received {received} times"));
        }
    }
    against
}

fn one_key(case: &Case<'_>) -> Vec<String> {
    let mut against = Vec::new();
    for (name, receipts) in receipts(case) {
        let keys: BTreeSet<&str> = receipts.iter().map(|it| it.key.as_str()).collect();
        if keys.len() != 1 {
            against.push(format!("{name} came under {keys:?}"));
        }
    }
    against
}
