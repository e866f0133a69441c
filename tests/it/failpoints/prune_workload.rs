//! Runs, samples and plans that are finished, and their going.

use super::steps::{Step, Workload, run_step};
use crate::{
    databases::texts,
    folder::Folder,
    prune::{Archive, CONFIG, CORN, HANDLER},
    shop::Shop,
};

pub(super) const WORKLOAD: Workload = Workload { steps: &STEPS, open, ask_again, check };

const STEPS: [Step; 7] = [
    Step::plain(&["db", "migrate"]),
    Step::plain(&["runs", "submit", "--from", "runs.jsonl", "-o", "json"]),
    Step::plain(&["worker", "--drain", "--queues", "work"]),
    // It succeeds in part.
    Step { arguments: &["pipeline", "run", "mill"], signal: None, code: Some(3) },
    Step::plain(&["plan", "new", "retry", "--kind", "run", "--queue", "work", "-q"]),
    Step::plain(&["plan", "abort", "1"]),
    Step::plain(&["prune", "--older-than", "0s", "--export", "archive", "--yes"]),
];

fn open(folder: Folder, store: &str) -> Shop {
    let line = |category: &str| {
        format!(
            "{{\"queue\": \"work\", \"category\": \"{category}\", \"idempotency_key\": \"{category}\"}}\n"
        )
    };
    folder.write("runs.jsonl", ["fine", "flaky", "bad"].map(line).concat());
    folder.write("corn.jsonl", CORN);
    Shop::unopened(folder, store, CONFIG, HANDLER)
}

/// Asks again for what was not survived.
#[track_caller]
fn ask_again(shop: &Shop, survived: &[Step], context: &str) {
    for step in STEPS.iter().skip(survived.len()) {
        if step.arguments[..2] == ["plan", "abort"] {
            abort_drafts(shop);
            continue;
        }
        let ended = run_step(shop, step, None);
        assert!(ended.is_as_meant(step), "{context}: again: {step:?} {ended:#?}");
    }
}

/// A killed process may have left a draft, or taken its number.
fn abort_drafts(shop: &Shop) {
    for plan in shop.run(&["plan", "list", "-o", "json"]).json().as_array().unwrap() {
        if plan["status"] == "draft" {
            shop.run(&["plan", "abort", &plan["id"].to_string()]).ok();
        }
    }
}

/// What is gone is in whole files that the journal knows, with all its attempts; and nothing is left.
#[track_caller]
fn check(shop: &Shop, _: usize, context: &str) {
    let doctor = shop.run(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "{context}: {doctor:#?}");
    for table in ["runs", "samples", "attempts", "plans", "plan_units"] {
        let left = texts(shop.store(), &format!("SELECT CAST(count(*) AS text) FROM {table}"));
        assert_eq!(left, ["0"], "{context}: {table}");
    }
    let archive = Archive::read(shop);
    archive.check_against_journal(shop, context);
    assert_eq!(archive.statuses("runs"), ["error", "passed", "passed"], "{context}");
    for (id, attempts) in archive.attempts("runs") {
        assert_eq!(archive.ledger("run", id).len() as u64, attempts, "{context}: run {id}");
    }
    for run in shop.run(&["pipeline", "list", "-o", "json"]).json().as_array().unwrap() {
        assert_eq!(run["pruned"], run["total"], "{context}: {run}");
        assert_eq!(run["status"], "partial_success", "{context}: {run}");
    }
    assert!(archive.statuses("plans").iter().all(|status| status == "aborted"), "{context}");
    let samples = archive.attempts("samples");
    assert!(samples.len() >= CORN.lines().count(), "{context}: {samples:?}");
    for (id, attempts) in samples {
        let last = archive.ledger("sample", id).into_iter().max().map_or(0, |(_, attempt)| attempt);
        assert_eq!(last, attempts, "{context}: sample {id}");
    }
}
