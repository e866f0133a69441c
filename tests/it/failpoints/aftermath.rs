//! What must be true after any of it: the runs as they should have ended, and what the handlers wrote
//! down against ledger and journal.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use redrive::{
    AttemptNumber, Cause, PartitionStatus, RawSink,
    store::{LedgerPlace, Selection, UnitKind, UnitRow},
};

use super::workload::{ITEMS, RUNS};
use crate::{databases::texts, shop::Shop};

/// What was written about a run, by its handlers and by the store.
#[derive(Debug, Default)]
struct Written {
    key: String,
    status: String,
    /// Executions by the number of their attempt.
    executions: BTreeMap<u64, usize>,
    /// Outcome and cause by the number of the attempt.
    ledger: BTreeMap<u64, (String, String)>,
    /// Entries by their action.
    journal: BTreeMap<String, usize>,
}

impl Written {
    fn ended(&self, outcome: &str) -> usize {
        self.ledger.values().filter(|end| end.0 == outcome).count()
    }

    fn lost(&self) -> usize {
        self.ledger.values().filter(|end| end.1 == "lost_worker").count()
    }

    fn told(&self, action: &str) -> usize {
        self.journal.get(action).copied().unwrap_or_default()
    }
}

/// Checks a store after so many crashes.
#[track_caller]
pub(super) fn check(shop: &Shop, crashes: usize, context: &str) {
    let doctor = shop.run(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "{context}: {doctor:#?}");
    check_partitions(shop, crashes, context);
    let written = gather(shop);
    let statuses: BTreeSet<(&str, &str)> =
        written.iter().map(|run| (run.key.as_str(), run.status.as_str())).collect();
    assert_eq!(statuses.len(), written.len(), "{context}: a key is there once");
    let expected = BTreeSet::from(RUNS.map(|(key, _, status)| (key, status)));
    assert_eq!(statuses, expected, "{context}: nothing lost, nothing added, everything ended");
    for run in &written {
        for (holds, sentence) in judge(run, crashes) {
            assert!(holds, "{context}: not so: {sentence}: {run:#?}");
        }
    }
    let journal = texts(shop.store(), "SELECT action FROM journal WHERE action LIKE 'queue.%'");
    let (paused, resumed): (Vec<_>, Vec<_>) =
        journal.iter().partition(|action| *action == "queue.pause");
    assert_eq!(paused.len(), resumed.len(), "{context}: what was paused is resumed, and both told");
    check_items(shop, crashes, context);
}

/// What was acknowledged stays so, and arrived once, but for a crash before that was written; the one
/// that is always rejected was given up and brought back.
#[track_caller]
fn check_items(shop: &Shop, crashes: usize, context: &str) {
    let items = shop.run(&["uploads", "list", "-o", "json"]).json();
    let items = items.as_array().unwrap();
    let of = |column: &str| -> Vec<&str> {
        items.iter().map(|item| item[column].as_str().unwrap()).collect()
    };
    assert_eq!(of("name"), ITEMS, "{context}: each item is there once");
    assert_eq!(of("status"), ["uploaded", "uploaded", "pending"], "{context}");
    let received = fs::read_to_string(shop.folder.path().join("received")).unwrap();
    for (item, once) in ITEMS.into_iter().zip([1, 2, 6]) {
        let lines = received.lines().filter_map(|line| line.split_once(' '));
        let keys: Vec<&str> = lines.filter(|(name, _)| *name == item).map(|(_, key)| key).collect();
        // Each time everything is asked for again, the bad one is sent and given up twice more.
        let most = if item == "bad" { 2 * once } else { once };
        let times = once..=most + crashes;
        assert!(times.contains(&keys.len()), "{context}: {item} arrived {} times", keys.len());
        assert!(keys.iter().all(|key| key == &keys[0]), "{context}: {item} has one key: {keys:?}");
    }
    let journal = texts(shop.store(), "SELECT unit FROM journal WHERE action = 'upload.giveup'");
    let told = fs::read_to_string(shop.folder.path().join("giveups.jsonl")).unwrap();
    assert_eq!(told.lines().count(), journal.len(), "{context}: {told}");
}

/// What must hold for a run.
fn judge(run: &Written, crashes: usize) -> Vec<(bool, &'static str)> {
    let handed_back = run.told("run.handback");
    let executions: usize = run.executions.values().sum();
    let of = |number| run.executions.get(number).copied().unwrap_or_default();
    let lost = |end: &(String, String)| end.1 == "lost_worker";
    let executed = run.ledger.iter().all(|(number, end)| of(number) >= 1 || lost(end));
    let known = run.executions.keys().all(|number| run.ledger.contains_key(number));
    vec![
        (run.ended("success") == usize::from(run.status == "passed"), "it passes once"),
        (run.told("run.cancel") == usize::from(run.status == "cancelled"), "it is cancelled once"),
        (run.lost() <= crashes, "a crash costs one attempt at most"),
        (run.lost() == run.told("run.lease_lost"), "each loss is told"),
        (run.ended("failed") == run.told("run.giveup"), "each give-up is told"),
        (
            run.status != "error" || run.ended("failed") == 1 + run.told("run.retry"),
            "it is given up at first and after each retry, and not otherwise",
        ),
        (executed, "what was not lost was executed"),
        (known, "what was executed is in the ledger"),
        // What is handed back is tried again under its number.
        (executions <= run.ledger.len() + handed_back, "no attempt was executed twice"),
    ]
}

/// Each was judged, and only what a death interrupted is bad; what is good is there, to the last byte.
#[track_caller]
fn check_partitions(shop: &Shop, crashes: usize, context: &str) {
    let sink = RawSink::folder(shop.folder.path().join("raw"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = redrive::open(shop.store()).await.unwrap();
        let all = store.partitions_page(&Selection::default(), None, 100.into()).await.unwrap();
        let mut failed = 0;
        for partition in all {
            assert!(partition.work.is_none(), "{context}: {partition:?} is still asked for");
            let unit = UnitRow::new(UnitKind::Partition, partition.id.0);
            let ledger = store.attempts_of(&unit, AttemptNumber(0), 100).await.unwrap();
            assert_eq!(ledger.len(), 1, "{context}: one attempt, one verdict");
            match partition.status {
                PartitionStatus::Pending => panic!("{context}: {partition:?}"),
                PartitionStatus::Success => {
                    let run = partition.current_run_id.as_ref().unwrap();
                    let sealed = sink.verify(&partition.key, run).await.unwrap();
                    assert_eq!(Some(sealed.record_count), partition.record_count, "{context}");
                    assert_eq!(sealed.record_count, 2, "{context}");
                }
                PartitionStatus::Failed => {
                    assert_eq!(ledger[0].cause, Some(Cause::LostWorker), "{context}");
                    assert_eq!(sink.runs(&partition.key).await.unwrap(), [], "{context}");
                    failed += 1;
                }
            }
        }
        assert!(failed <= crashes, "{context}: a crash costs one attempt at most");
    });
}

/// All there are.
fn gather(shop: &Shop) -> Vec<Written> {
    let listed = shop.run(&["runs", "list", "-o", "json"]).json();
    let mut runs: BTreeMap<String, Written> = BTreeMap::new();
    for run in listed.as_array().unwrap() {
        let text = |column: &str| run[column].as_str().unwrap().to_owned();
        let (key, status) = (text("idempotency_key"), text("status"));
        runs.insert(format!("run:{}", run["id"]), Written { key, status, ..Written::default() });
    }
    let executions = fs::read_to_string(shop.folder.path().join("executions")).unwrap();
    for line in executions.lines() {
        let (unit, number) = line.split_once(' ').unwrap();
        let run = runs.get_mut(unit).unwrap();
        *run.executions.entry(number.parse().unwrap()).or_default() += 1;
    }
    let ledger = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let store = redrive::open(shop.store()).await.unwrap();
        store.ledger_page(UnitKind::Run, &LedgerPlace::start(), 10_000).await.unwrap()
    });
    for row in ledger {
        let end = (row.outcome.name().to_owned(), row.cause.map_or("", Cause::name).to_owned());
        let run = runs.get_mut(&format!("run:{}", row.unit.id)).unwrap();
        run.ledger.insert(row.attempt.0.into(), end);
    }
    let journal = "SELECT unit || ' ' || action FROM journal WHERE unit LIKE 'run:%'";
    for row in texts(shop.store(), journal) {
        let (unit, action) = row.split_once(' ').unwrap();
        *runs.get_mut(unit).unwrap().journal.entry(action.to_owned()).or_default() += 1;
    }
    runs.into_values().collect()
}
