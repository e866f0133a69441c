//! Partitions, and what operators, daemons, workers and their ends do to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use redrive::{
    AttemptNumber, Cause, PartitionStatus,
    store::{AttemptRecord, PartitionRecord, Selection, UnitKind, UnitRow},
};

use super::steps::{DRAIN, Step, Workload, run_step};
use crate::{databases::texts, folder::Folder, shop::Shop};

/// Short leases: whatever a killed worker held comes back at their end. What failed is due at once, but
/// for the source that has had all its attempts after one.
const CONFIG: &str = r#"
[[source]]
name = "days"
customers = ["good", "flaky", "slow"]
queries = ["q"]
extract = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
policy = { base = "1ms", cap = "1ms", jitter = "none" }

[[source]]
name = "lost"
customers = ["bad"]
queries = ["q"]
extract = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
policy = { max-attempts = 1, base = "1ms", cap = "1ms", jitter = "none" }
"#;

/// Every execution writes itself down. A slow one lasts until it may end, or its folder is gone.
const EXTRACTOR: &str = r#"
echo "$REDRIVE_CUSTOMER_ID $REDRIVE_RUN_ID" >> executions
case "$REDRIVE_CUSTOMER_ID:$REDRIVE_ATTEMPT" in
flaky:1 | bad:*) echo 'no luck' >&2; exit 1 ;;
slow:*) until [ -e calm ] || ! [ -e work.sh ]; do sleep 0.05; done ;;
esac
echo '{"n": 1}'
echo '{"n": 2}'
"#;

/// Each partition, and how it ends.
const PARTITIONS: [(&str, PartitionStatus); 4] = [
    ("days/flaky/q/2026-01-01", PartitionStatus::Success),
    ("days/good/q/2026-01-01", PartitionStatus::Success),
    ("days/slow/q/2026-01-01", PartitionStatus::Success),
    ("lost/bad/q/2026-01-01", PartitionStatus::Failed),
];

pub(super) const WORKLOAD: Workload = Workload { steps: &STEPS, open, ask_again, check };

const STEPS: [Step; 18] = [
    Step::plain(&["db", "migrate"]),
    BACKFILL,
    BACKFILL_BAD,
    Step::plain(&["state", "pause", "days/good/q/2026-01-01"]),
    Step::plain(&["worker", "--drain", "--sources", "days,lost"]),
    Step::plain(&["state", "resume", "days/good/q/2026-01-01"]),
    Step::plain(&["worker", "--drain", "--sources", "days"]),
    Step::plain(&["state", "mark-terminal", "lost/bad/q/2026-01-01"]),
    Step::plain(&["state", "clear-terminal", "lost/bad/q/2026-01-01"]),
    Step::plain(&["state", "retry", "days/flaky/q/2026-01-01", "--force"]),
    Step::plain(&["state", "reprocess", "days/good/q/2026-01-01"]),
    Step::plain(&["worker", "--drain", "--sources", "days"]),
    BACKFILL_SLOW,
    // Stopped: it hands its partition back.
    Step {
        arguments: &["worker", "--sources", "days", "--grace", "100ms"],
        signal: Some(("engine.renew.written", "-TERM")),
        code: Some(143),
    },
    // Lost: its partition is judged when its lease ends, and what is judged has failed.
    Step {
        arguments: &["worker", "--sources", "days"],
        signal: Some(("engine.unit.starting", "-KILL")),
        code: None,
    },
    DRAIN,
    // Retries what was lost, and tells that it gives up on what is bad.
    Step::plain(&["daemon", "--once"]),
    DRAIN,
];

const BACKFILL: Step = Step::plain(&[
    "state",
    "backfill",
    "--source",
    "days",
    "--customer-id",
    "good",
    "--customer-id",
    "flaky",
    "--since",
    "2026-01-01",
    "--until",
    "2026-01-01",
]);
const BACKFILL_BAD: Step = Step::plain(&[
    "state",
    "backfill",
    "--source",
    "lost",
    "--since",
    "2026-01-01",
    "--until",
    "2026-01-01",
]);
const BACKFILL_SLOW: Step = Step::plain(&[
    "state",
    "backfill",
    "--source",
    "days",
    "--customer-id",
    "slow",
    "--since",
    "2026-01-01",
    "--until",
    "2026-01-01",
]);

fn open(folder: Folder, store: &str) -> Shop {
    Shop::unopened(folder, store, CONFIG, EXTRACTOR)
}

/// Whatever state a death left, the same steps lead to the same end. What is not there to be changed any
/// more is refused.
#[track_caller]
fn ask_again(shop: &Shop, _: &[Step], context: &str) {
    shop.folder.write("calm", "");
    for step in STEPS.iter().filter(|step| step.signal.is_none()) {
        let ended = run_step(shop, step, None);
        let refused = step.arguments[0] == "state" && ended.code == Some(1);
        assert!(ended.is_as_meant(step) || refused, "{context}: again: {step:?} {ended:#?}");
    }
}

#[track_caller]
fn check(shop: &Shop, crashes: usize, context: &str) {
    for sound in [&["doctor"][..], &["state", "verify"]] {
        let ended = shop.run(sound);
        assert_eq!(ended.code, Some(0), "{context}: {ended:#?}");
    }
    let executions = fs::read_to_string(shop.folder.path().join("executions")).unwrap();
    let begun: BTreeSet<&str> =
        executions.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(begun.len(), executions.lines().count(), "{context}: a run is begun once");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = redrive::open(shop.store()).await.unwrap();
        let all = store.partitions_page(&Selection::default(), None, 100.into()).await.unwrap();
        let ends: Vec<(String, PartitionStatus)> =
            all.iter().map(|partition| (partition.key.to_string(), partition.status)).collect();
        let meant = PARTITIONS.map(|(key, status)| (key.to_owned(), status));
        assert_eq!(ends, meant, "{context}: everything is there and has come to its end");
        for partition in &all {
            let unit = UnitRow::new(UnitKind::Partition, partition.id.0);
            let ledger = store.attempts_of(&unit, AttemptNumber(0), 100).await.unwrap();
            judge(partition, &ledger, &begun, crashes, context);
        }
    });
    check_journal(shop, context);
}

#[track_caller]
fn judge(
    partition: &PartitionRecord,
    ledger: &[AttemptRecord],
    begun: &BTreeSet<&str>,
    crashes: usize,
    context: &str,
) {
    let lost = |row: &&AttemptRecord| row.cause == Some(Cause::LostWorker);
    let executed = |row: &AttemptRecord| begun.contains(row.run_id.as_deref().unwrap());
    let rules = [
        (partition.work.is_none(), "nothing more is asked for"),
        (ledger.iter().filter(lost).count() <= crashes, "a crash costs one attempt at most"),
        (ledger.iter().all(|row| executed(row) || lost(&row)), "what was judged was made or lost"),
        (partition.attempt_count as usize == ledger.len(), "every verdict counts once"),
    ];
    for (holds, rule) in rules {
        assert!(holds, "{context}: not so: {rule}: {partition:?} {ledger:#?}");
    }
}

/// What was paused is resumed, what was marked is cleared, and giving up is told once.
#[track_caller]
fn check_journal(shop: &Shop, context: &str) {
    let mut actions: BTreeMap<String, usize> = BTreeMap::new();
    for action in texts(shop.store(), "SELECT action FROM journal") {
        *actions.entry(action).or_default() += 1;
    }
    let told = |action: &str| actions.get(action).copied().unwrap_or_default();
    assert_eq!(told("partition.pause"), told("partition.resume"), "{context}: {actions:?}");
    let (marked, cleared) = (told("partition.mark_terminal"), told("partition.clear_terminal"));
    assert_eq!(marked, cleared, "{context}: {actions:?}");
    assert_eq!(told("partition.giveup"), 1, "{context}: {actions:?}");
    assert_eq!(told("partition.backfill"), PARTITIONS.len(), "{context}: {actions:?}");
}
