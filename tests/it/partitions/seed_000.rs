//! What the specification of retries and reprocessing says of partitions, where no other test is about
//! just that. Sections and bullets are its own; `docs/partitions.md` has the whole list.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use redrive::{
    Clock, Lane, PartitionAction, PartitionKey, PartitionStatus, SystemClock,
    jiff::{Timestamp, ToSpan},
};
use serde_json::json;

use super::yard::Yard;
use crate::archive::Archive;

fn good(yard: &Yard, good: bool) {
    yard.shop.folder.write("mode", if good { "good" } else { "bad" });
}

fn ago(minutes: i64) -> Timestamp {
    SystemClock.now().checked_sub(minutes.minutes()).unwrap()
}

/// Every file of a folder with its bytes and when it was last changed.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            let changed = entry.metadata().unwrap().modified().unwrap();
            found.insert(entry.path(), (fs::read(entry.path()).unwrap(), changed));
        }
    }
    found
}

/// §2, third bullet, and §7: workers, validators and consumers never make a failed partition pending;
/// only an explicit action of the control plane does, and the journal has it.
// PAR-5
#[test]
fn section_2_nobody_but_the_control_plane_makes_a_failed_partition_pending() {
    for yard in Yard::both() {
        good(&yard, false);
        let key = yard.ask("ads/1234/mode/2026-01-31");
        yard.drain();
        let failed = yard.record(&key);
        assert_eq!(failed.status, PartitionStatus::Failed);
        // What would succeed now is not tried, however often anybody looks.
        good(&yard, true);
        let told = yard.journal(&key);
        for _ in 0..3 {
            yard.drain();
            yard.shop.run(&["consume", "list"]).ok();
            yard.shop.run(&["consume", "cat", "ads/1234/mode/2026-01-31"]).failed(7);
            yard.shop.run(&["state", "verify"]).ok();
        }
        assert_eq!((yard.record(&key), yard.journal(&key)), (failed, told));
        yard.shop.run(&["state", "retry", "ads/1234/mode/2026-01-31", "--force"]).ok();
        assert_eq!(yard.record(&key).status, PartitionStatus::Pending);
        yard.drain();
        assert_eq!(yard.record(&key).status, PartitionStatus::Success);
        let retries = yard.journal(&key).iter().filter(|row| row.1 == "partition.retry").count();
        assert_eq!(retries, 1);
    }
}

/// §2, second and fourth bullet: a rejected run takes no authority, and one failure after the other
/// counts while the status stays failed.
// PAR-5, PAR-6
#[test]
fn section_2_failure_after_failure_counts_and_stays_failed_without_a_run() {
    for yard in Yard::both() {
        good(&yard, false);
        let key = yard.ask("ads/1234/mode/2026-01-31");
        for count in 1..=3 {
            yard.drain();
            let record = yard.record(&key);
            assert_eq!((record.status, record.attempt_count), (PartitionStatus::Failed, count));
            assert_eq!((record.current_run_id, record.record_count), (None, None));
            yard.retry(&key);
        }
    }
}

/// §2, fifth bullet, and §5, last bullet: validators do not look at terminality. One that was marked
/// while it was being tried is judged like any other; good is good.
// PAR-7
#[test]
fn section_2_a_validator_does_not_mind_that_a_partition_is_terminal() {
    for archive in Archive::both() {
        // Past its limit, and tried once more because an operator says so.
        let spent = archive.failed("strict/7/daily/2026-03-01", 2);
        assert_eq!(archive.inspect(&spent)["terminal"], true);
        let again = ["state", "retry", "--source", "strict", "--clear-terminal"];
        archive.run(&again).ok();
        archive.accept(&spent, &["{}"]);
        assert_eq!(archive.status(&spent), PartitionStatus::Success);
        assert_eq!(archive.partition(&spent).unwrap().attempt_count, 3);
    }
}

/// §3, third bullet: whatever operators do, the count of attempts never goes down.
// PAR-6
#[test]
fn section_3_the_count_of_attempts_never_goes_down_whatever_is_done() {
    for archive in Archive::both() {
        let key = archive.failed("ads/7/daily/2026-03-01", 3);
        let unit = format!("partition:{key}");
        let day = ["--since", "2026-03-01", "--until", "2026-03-01", "--customer-id", "7"];
        let mut highest = 3;
        let commands: [&[&str]; 9] = [
            &["state", "mark-terminal", &unit],
            &["state", "clear-terminal", &unit],
            &["state", "pause", &unit],
            &["state", "resume", &unit],
            &[&["state", "backfill", "--source", "ads"], &day[..]].concat(),
            &["state", "retry", &unit],
            &["daemon", "--once"],
            &["state", "reprocess", &unit],
            &[&["state", "backfill", "--source", "ads", "--force-pending"], &day[..]].concat(),
        ];
        for command in commands {
            archive.run(command);
            let work = archive.partition(&key).unwrap().work.and_then(|work| work.request);
            if work.is_some() {
                archive.accept(&key, &["{}"]);
                highest += 1;
            }
            let count = archive.partition(&key).unwrap().attempt_count;
            assert_eq!(count, highest, "after {command:?}");
        }
        assert!(highest >= 5, "a retry and a reprocess were judged");
    }
}

/// §3, fourth bullet, and §9, first and last bullet: each attempt has a run of its own, and neither
/// retries nor validators touch a byte of the runs before, or a row of their attempts.
// PAR-2, PAR-3, PAR-11
#[test]
fn section_9_no_attempt_touches_the_runs_and_rows_before_it() {
    for yard in Yard::both() {
        let raw = yard.shop.folder.path().join("raw");
        let key = yard.ask("ads/1234/fine/2026-01-31");
        yard.drain();
        let mut runs = vec![yard.record(&key).current_run_id.unwrap()];
        for _ in 0..3 {
            let (before, ledger) = (files(&raw), yard.ledger(&key));
            yard.reprocess(&key);
            yard.drain();
            let after = files(&raw);
            assert!(before.iter().all(|(path, file)| after.get(path) == Some(file)));
            assert_eq!(after.len(), before.len() + 2, "a payload and its metadata");
            assert_eq!(yard.ledger(&key)[..ledger.len()], ledger);
            let run = yard.record(&key).current_run_id.unwrap();
            assert!(!runs.contains(&run), "a run of its own");
            runs.push(run);
        }
        assert_eq!(yard.block_on(yard.sink().runs(&key)).unwrap(), runs);
        yard.shop.run(&["state", "verify"]).ok();
    }
}

/// §5, all bullets: nothing is retried by itself once it is good, has had its attempts, or is too old;
/// these are failed partitions with a reason, and no status of their own.
// PAR-7, DMN-3
#[test]
fn section_5_retries_stop_at_success_at_max_attempts_and_at_max_age() {
    for archive in Archive::both() {
        let done = archive.good("ads/7/daily/2026-03-01", &["{}"]);
        let spent = archive.failed_at("strict/7/daily/2026-03-01", 2, ago(600), true);
        let old = archive.failed_at("young/7/daily/2026-03-01", 1, ago(61), true);
        let young = archive.failed_at("young/7/daily/2026-03-02", 1, ago(30), true);
        let marked = archive.terminal("ads/7/daily/2026-03-02");
        let before = [&done, &spent, &old, &marked].map(|key| archive.partition(key));
        archive.run(&["daemon", "--once", "-q", "-q"]).ok();
        assert_eq!([&done, &spent, &old, &marked].map(|key| archive.partition(key)), before);
        assert_eq!(archive.status(&young), PartitionStatus::Pending, "before its limit it is");
        let list = archive.run(&["state", "inspect", "--terminal", "-o", "json"]).json();
        let told: Vec<_> = list
            .as_array()
            .unwrap()
            .iter()
            .map(|row| json!([row["source"], row["status"], row["terminal_reason"]]))
            .collect();
        let expected = [
            json!(["ads", "failed", "marked"]),
            json!(["strict", "failed", "attempts_exhausted"]),
            json!(["young", "failed", "too_old"]),
        ];
        assert_eq!(told, expected);
    }
}

/// §6, first two bullets: a backfill asks for many, and each of them lives like any other partition: a
/// run of its own for each attempt, counted, retried by the same rules.
// PAR-9
#[test]
fn section_6_what_was_backfilled_fails_is_retried_and_succeeds_like_the_rest() {
    for yard in Yard::both() {
        good(&yard, false);
        let backfill = ["state", "backfill", "--source", "ads", "--query-name", "mode"];
        let range = ["--since", "2026-01-01", "--until", "2026-01-03", "--allow-unknown"];
        yard.shop.run(&[&backfill[..], &range].concat()).ok();
        let keys: Vec<PartitionKey> =
            (1..=3).map(|day| format!("ads/1234/mode/2026-01-0{day}").parse().unwrap()).collect();
        for key in &keys {
            let record = yard.record(key);
            assert_eq!((record.status, record.attempt_count), (PartitionStatus::Pending, 0));
        }
        yard.drain();
        good(&yard, true);
        let retry = ["state", "retry", "--source", "ads", "--query-name", "mode", "--force"];
        yard.shop.run(&retry).ok();
        yard.drain();
        for key in &keys {
            let (record, ledger) = (yard.record(key), yard.ledger(key));
            assert_eq!((record.status, record.attempt_count), (PartitionStatus::Success, 2));
            let runs: Vec<_> = ledger.iter().map(|row| row.run_id.clone().unwrap()).collect();
            assert_ne!(runs[0], runs[1]);
            let outcomes: Vec<_> = ledger.iter().map(|row| row.outcome.name()).collect();
            assert_eq!(outcomes, ["failed", "success"]);
        }
    }
}

/// §6, third bullet: consumers see a history with holes as it is, and are told what the holes are.
// PAR-9, PAR-12
#[test]
fn section_6_a_history_with_holes_is_read_with_its_holes() {
    for archive in Archive::both() {
        archive.good("ads/7/daily/2026-03-01", &["1"]);
        archive.failed("ads/7/daily/2026-03-02", 1);
        archive.done(
            PartitionAction::Backfill { force_pending: false, lane: Lane::Backfill },
            &"ads/7/daily/2026-03-03".parse().unwrap(),
        );
        archive.good("ads/7/daily/2026-03-05", &["5"]);
        let range = ["--source", "ads", "--customer-id", "7", "--since", "2026-03-01"];
        let range = [&range[..], &["--until", "2026-03-05"]].concat();
        let cat = archive.run(&[&["consume", "cat", "-q"], &range[..]].concat());
        assert_eq!(cat.ok(), "1\n5\n");
        let gaps = archive.run(&[&["state", "gaps", "-o", "json"], &range[..]].concat()).json();
        let told: Vec<_> = gaps
            .as_array()
            .unwrap()
            .iter()
            .map(|row| json!([row["since"], row["gap"], row["status"]]))
            .collect();
        let expected = [
            json!(["2026-03-02", "failed", "failed"]),
            json!(["2026-03-03", "late", "pending"]),
            json!(["2026-03-04", "missing", null]),
        ];
        assert_eq!(told, expected, "{gaps}");
    }
}
