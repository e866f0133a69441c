//! `redrive state retry | reprocess | mark-terminal | clear-terminal | pause | resume`.

use redrive::{Clock, PartitionStatus, SystemClock, jiff::ToSpan};
use serde_json::{Value, json};

use crate::archive::{Archive, outcomes, pairs};

fn day(day: u32) -> String {
    format!("ads/7/daily/2026-03-{day:02}")
}

// PAR-5, PAR-8
#[test]
fn a_failed_partition_goes_back_and_nothing_else_of_it_changes() {
    for archive in Archive::both() {
        let key = archive.failed(&day(1), 3);
        let before = archive.inspect(&key);
        let retry =
            ["state", "retry", "--source", "ads", "--customer-id", "7", "--force", "--reason"];
        let mut command =
            archive.command(&[&retry[..], &["the API is back", "-o", "json"]].concat());
        let ended = archive.folder.ended(command.env("USER", "ada").output().unwrap());
        assert_eq!(
            ended.json(),
            json!([{
                "unit": "partition:ads/7/daily/2026-03-01", "outcome": "done", "before": "failed",
                "why": null
            }])
        );
        let after = archive.inspect(&key);
        assert_eq!(after["status"], "pending");
        for untouched in ["attempt_count", "current_run_id", "record_count", "error_message"] {
            assert_eq!(after[untouched], before[untouched], "{untouched}");
        }
        let history =
            archive.run(&["state", "history", &format!("partition:{key}"), "-o", "json"]).json();
        let numbers: Vec<i64> = history
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["attempt"].as_i64().unwrap())
            .collect();
        assert_eq!(numbers, [1, 2, 3]);
        // Who, when, command, filters, flags, which.
        let told = archive.audit(&key);
        let told = told.iter().rfind(|row| row["action"] == "partition.retry").unwrap();
        assert_eq!(told["actor"], "ada");
        assert_eq!(told["unit"], format!("partition:{key}"));
        assert_eq!(told["filter"], json!({ "source": "ads", "customer_id": "7" }));
        assert_eq!(
            json!([
                told["details"]["command"],
                told["details"]["flags"],
                told["details"]["reason"]
            ]),
            json!(["plan 1", ["--force"], "the API is back"])
        );
        assert!(told["at"].as_str().is_some());
        archive.run(&["state", "verify"]).ok();
    }
}

// PAR-5, PAR-8
#[test]
fn only_failed_partitions_are_retried_and_pending_ones_say_so() {
    for archive in Archive::both() {
        let good = archive.good(&day(1), &["{}"]);
        archive.failed(&day(2), 1);
        archive.pending(&day(3));
        let retry = ["state", "retry", "--source", "ads", "-o", "json"];
        let first = archive.run(&retry);
        let expected = [("ads/7/2026-03-02", "done"), ("ads/7/2026-03-03", "already")];
        assert_eq!((outcomes(&first), first.code), (pairs(&expected), Some(0)));
        let again = archive.run(&retry);
        let expected = [("ads/7/2026-03-02", "already"), ("ads/7/2026-03-03", "already")];
        assert_eq!((outcomes(&again), again.code), (pairs(&expected), Some(0)));
        // One that is named is answered for, whatever it is.
        let named = archive.run(&["state", "retry", &format!("partition:{good}"), "-o", "json"]);
        assert_eq!((outcomes(&named)[0].1.as_str(), named.code), ("refused", Some(1)));
        assert_eq!(archive.status(&good), PartitionStatus::Success);
        let absent = archive.run(&["state", "retry", &day(9), "-o", "json"]);
        assert_eq!(absent.code, Some(1));
        assert!(absent.stdout.contains("the partition has no entry"), "{}", absent.stdout);
    }
}

// PAR-7, PAR-8, CAU-3
#[test]
fn an_action_takes_only_the_partitions_of_the_named_state() {
    for archive in Archive::both() {
        let terminal = archive.terminal(&day(1));
        let waiting = archive.failed(&day(2), 1);
        archive.pending(&day(3));
        let retry = ["state", "retry", "--source", "ads", "--clear-terminal", "-o", "json"];
        let planned = |state| {
            outcomes(&archive.run(&[&retry[..], &["--dry-run", "--state", state]].concat()))
        };
        assert_eq!(planned("waiting"), pairs(&[("ads/7/2026-03-02", "would_be_done")]));
        for state in ["terminal", "given-up"] {
            assert_eq!(planned(state), pairs(&[("ads/7/2026-03-01", "would_be_done")]));
        }
        archive.run(&[&retry[..], &["--state", "terminal", "--yes"]].concat()).ok();
        assert_eq!(archive.status(&terminal), PartitionStatus::Pending);
        assert_eq!(archive.status(&waiting), PartitionStatus::Failed);
        let told = archive.audit(&terminal);
        let told = told.iter().rfind(|row| row["action"] == "partition.retry").unwrap();
        let filter = json!({ "source": "ads", "status": "failed", "waiting": false });
        assert_eq!(told["filter"], filter);
    }
}

// PAR-8, CAU-3
#[test]
fn a_filter_that_names_a_whole_key_keeps_its_other_terms() {
    for archive in Archive::both() {
        let key = archive.failed(&day(1), 1);
        let named = ["--source", "ads", "--customer-id", "7", "--query-name", "daily"];
        let named = [&named[..], &["--logical-date", "2026-03-01", "-o", "json"]].concat();
        let shown =
            |terms: &[&str]| archive.run(&[&["state", "inspect"], &named[..], terms].concat());
        for terms in [["--error", "no such text"], ["--code", "999"], ["--state", "terminal"]] {
            let none = archive.run(&[&["state", "retry"], &named[..], &terms].concat()).failed(4);
            assert!(none.contains("no partition matches; nothing was changed"), "{none}");
            assert_eq!(shown(&terms).json(), json!([]), "{terms:?}");
        }
        assert_eq!(archive.status(&key), PartitionStatus::Failed);
        let both = ["state", "inspect", &day(1), "--state", "failed"];
        assert!(archive.run(&both).failed(2).contains("cannot be combined"));
        for terms in [&[][..], &["--error", "no rows"], &["--state", "waiting"]] {
            assert_eq!(shown(terms).json()[0]["status"], "failed", "{terms:?}");
            let planned =
                archive.run(&[&["state", "retry", "--dry-run"], &named[..], terms].concat());
            assert_eq!(outcomes(&planned), pairs(&[("ads/7/2026-03-01", "would_be_done")]));
        }
    }
}

// PAR-8
#[test]
fn a_retry_says_when_it_leaves_out_pending_partitions() {
    let archive = Archive::on_sqlite();
    let backfill = ["state", "backfill", "--source", "ads", "--since", "2026-01-01", "--yes"];
    archive.run(&[&backfill[..], &["--until", "2026-02-28"]].concat()).ok();
    let retry = |customer| {
        let retried = ["state", "retry", "--source", "ads", "--since", "2026-01-01", "-o", "json"];
        let retried = archive.run(&[&retried[..], customer].concat());
        (outcomes(&retried).len(), retried.stderr.contains("further partitions need no change"))
    };
    assert_eq!(retry(&[]), (100, true));
    assert_eq!(retry(&["--customer-id", "7"]), (59, false));
}

// PAR-8, OPS-4
#[test]
fn an_empty_filter_is_refused_without_all() {
    for archive in Archive::both() {
        let key = archive.failed(&day(1), 1);
        for command in ["retry", "reprocess", "mark-terminal", "clear-terminal", "pause", "resume"]
        {
            let complaint = archive.run(&["state", command, "--yes"]).failed(4);
            assert!(complaint.contains("--all"), "{complaint}");
        }
        assert_eq!(archive.status(&key), PartitionStatus::Failed);
        let complaint = archive.run(&["state", "retry", "--source", "sda"]).failed(4);
        assert!(complaint.contains("no partition matches; nothing was changed"), "{complaint}");
        archive.run(&["state", "retry", "--all"]).ok();
        assert_eq!(archive.status(&key), PartitionStatus::Pending);
    }
}

// PAR-8, OPS-4
#[test]
fn more_than_twenty_partitions_are_asked_about() {
    for archive in Archive::both() {
        for number in 1..=21 {
            archive.failed(&day(number), 1);
        }
        let retry = ["state", "retry", "--source", "ads", "-o", "json"];
        let complaint = archive.run(&retry).failed(4);
        assert!(complaint.contains("--yes"), "{complaint}");
        let failed = |archive: &Archive| {
            let failed = |record: &&_| record_is_failed(record);
            archive.everything().iter().filter(failed).count()
        };
        assert_eq!(failed(&archive), 21, "nothing was changed");
        let dry = archive.run(&[&retry[..], &["--dry-run"]].concat());
        assert_eq!((dry.code, outcomes(&dry).len()), (Some(0), 21), "looking is free");
        archive.run(&["state", "retry", &day(1)]).ok();
        let done = archive.run(&retry);
        assert_eq!((done.code, failed(&archive)), (Some(0), 0), "twenty are not asked about");
    }
}

fn record_is_failed(record: &redrive::PartitionRecord) -> bool {
    record.status == PartitionStatus::Failed
}

// PAR-8, FIX-4
#[test]
fn yes_answers_the_question_and_force_does_not() {
    let archive = Archive::on_sqlite();
    for number in 1..=21 {
        archive.failed(&day(number), 1);
    }
    let unasked = archive.run(&["state", "retry", "--source", "ads", "--force"]).failed(4);
    assert!(unasked.contains("--yes"), "{unasked}");
    assert!(archive.everything().iter().all(record_is_failed));
    archive.run(&["state", "retry", "--source", "ads", "--yes"]).ok();
    assert!(!archive.everything().iter().any(record_is_failed));
}

// PAR-7, PAR-8
#[test]
fn terminal_partitions_are_left_alone_until_cleared() {
    for archive in Archive::both() {
        let marked = archive.terminal(&day(1));
        let spent = archive.failed("strict/7/daily/2026-03-01", 2);
        let hour_ago = SystemClock.now().checked_sub(1.hour()).unwrap();
        let old = archive.failed_at("young/7/daily/2026-03-01", 1, hour_ago, true);
        let fine = archive.failed("young/7/daily/2026-03-02", 1);
        let terminal = archive.run(&["state", "inspect", "--terminal", "-o", "json"]).json();
        let reasons: Vec<(&str, &str)> = terminal
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (row["source"].as_str().unwrap(), row["terminal_reason"].as_str().unwrap()))
            .collect();
        let expected = [("ads", "marked"), ("strict", "attempts_exhausted"), ("young", "too_old")];
        assert_eq!(reasons, expected);

        let none = archive.run(&["state", "retry", &format!("partition:{spent}"), "-o", "json"]);
        assert_eq!(none.code, Some(4), "nothing done because a rail refused");
        assert!(
            none.stdout.contains("terminal (attempts_exhausted); `state retry --clear-terminal`"),
            "{}",
            none.stdout
        );
        let some = archive.run(&["state", "retry", "--all", "-o", "json"]);
        let expected = [
            ("ads/7/2026-03-01", "refused"),
            ("strict/7/2026-03-01", "refused"),
            ("young/7/2026-03-01", "refused"),
            ("young/7/2026-03-02", "done"),
        ];
        assert_eq!((outcomes(&some), some.code), (pairs(&expected), Some(3)));
        for key in [&marked, &spent, &old] {
            assert_eq!(archive.status(key), PartitionStatus::Failed);
        }
        assert_eq!(archive.status(&fine), PartitionStatus::Pending);
        archive.run(&["state", "retry", "--all", "--clear-terminal"]).ok();
        for key in [&marked, &spent, &old] {
            assert_eq!(archive.status(key), PartitionStatus::Pending);
        }
        assert_eq!(archive.inspect(&marked)["error_message"], "no rows", "the mark is gone");
    }
}

// PAR-7, DMN-1
#[test]
fn a_partition_whose_day_is_older_than_the_limit_is_terminal() {
    for archive in Archive::both() {
        let config = archive.folder.read("redrive.toml");
        let limit = config.replace("max-age = \"1h\"", "max-logical-age = \"30d\"");
        archive.folder.write("redrive.toml", limit);
        let hour_ago = SystemClock.now().checked_sub(1.hour()).unwrap();
        let today = hour_ago.strftime("%F");
        let old = archive.failed_at("young/7/daily/2026-01-01", 1, hour_ago, true);
        let fresh = archive.failed_at(&format!("young/7/daily/{today}"), 1, hour_ago, true);
        let row = archive.inspect(&old);
        assert_eq!(
            json!([row["status"], row["terminal_reason"], row["next_retry_at"]]),
            json!(["failed", "too_old", Value::Null])
        );
        assert_eq!(archive.inspect(&fresh)["terminal"], false);
        let why = archive.run(&["why", &format!("partition:{old}")]).ok();
        assert!(why.contains("its day is 30d old or more"), "{why}");
        let daemon = archive.run(&["daemon", "--once"]);
        assert!(daemon.code == Some(0) && daemon.stderr.contains("too_old"), "{daemon:#?}");
        assert_eq!(archive.status(&old), PartitionStatus::Failed, "nothing retries it");
        assert_eq!(archive.status(&fresh), PartitionStatus::Pending);
        let refused = archive.run(&["state", "retry", &format!("partition:{old}")]);
        assert!(refused.code == Some(4) && refused.stdout.contains("(too_old)"), "{refused:#?}");
        archive.run(&["state", "retry", "--all", "--clear-terminal"]).ok();
        assert_eq!(archive.status(&old), PartitionStatus::Pending);
    }
}

// PAR-7, PAR-9
#[test]
fn terminal_is_a_mark_on_a_failed_partition_and_no_status() {
    for archive in Archive::both() {
        let (failed, good) = (archive.failed(&day(1), 1), archive.good(&day(2), &["{}"]));
        let mark = ["state", "mark-terminal", "--source", "ads", "-o", "json"];
        let marked = archive.run(&mark);
        assert_eq!(outcomes(&marked), pairs(&[("ads/7/2026-03-01", "done")]), "{good} is good");
        let row = archive.inspect(&failed);
        assert_eq!(
            json!([row["status"], row["error_message"], row["terminal"], row["terminal_reason"]]),
            json!(["failed", "[terminal] no rows", true, "marked"])
        );
        assert_eq!(outcomes(&archive.run(&mark)), pairs(&[("ads/7/2026-03-01", "already")]));
        let clear = ["state", "clear-terminal", "--source", "ads", "-o", "json"];
        assert_eq!(outcomes(&archive.run(&clear)), pairs(&[("ads/7/2026-03-01", "done")]));
        let row = archive.inspect(&failed);
        assert_eq!(json!([row["status"], row["error_message"]]), json!(["failed", "no rows"]));
        assert!(row["next_retry_at"].is_string(), "{row}");
        archive.run(&clear).failed(4);
    }
}

// FIX-4
#[test]
fn a_failed_extraction_leaves_nothing_behind_and_is_retried_without_a_flag() {
    for archive in Archive::both() {
        let key = archive.unextracted(&day(1));
        let retry = ["state", "retry", "--source", "ads", "-o", "json"];
        let done = archive.run(&retry);
        assert_eq!((outcomes(&done), done.code), (pairs(&[("ads/7/2026-03-01", "done")]), Some(0)));
        assert_eq!(archive.status(&key), PartitionStatus::Pending);
        let marked = archive.unextracted(&day(2));
        archive.run(&["state", "mark-terminal", &format!("partition:{marked}")]).ok();
        archive.run(&["state", "retry", "--all", "--clear-terminal"]).ok();
        assert_eq!(archive.status(&marked), PartitionStatus::Pending);
    }
}

// FIX-4
#[test]
fn a_backfill_that_retries_keeps_to_the_same_rail() {
    for archive in Archive::both() {
        let now = SystemClock.now();
        let gone = archive.failed_at(&day(1), 1, now, false);
        let never = archive.unextracted(&day(2));
        let backfill = [
            "state",
            "backfill",
            "--source",
            "ads",
            "--customer-id",
            "7",
            "--query-name",
            "daily",
            "--since",
            "2026-03-01",
            "--until",
            "2026-03-02",
            "--force-pending",
            "-o",
            "json",
        ];
        let some = archive.run(&backfill);
        let expected = [("ads/7/2026-03-01", "refused"), ("ads/7/2026-03-02", "done")];
        assert_eq!((outcomes(&some), some.code), (pairs(&expected), Some(3)));
        assert_eq!(archive.status(&gone), PartitionStatus::Failed);
        assert_eq!(archive.status(&never), PartitionStatus::Pending);
        archive.run(&[&backfill[..], &["--force"]].concat()).ok();
        assert_eq!(archive.status(&gone), PartitionStatus::Pending);
    }
}

// PAR-8, FIX-4, FIX-6
#[test]
fn a_partition_whose_judged_data_is_gone_is_refused_unless_forced() {
    for archive in Archive::both() {
        let now = SystemClock.now();
        archive.failed_at(&day(1), 1, now, false);
        archive.failed(&day(2), 1);
        let retry = ["state", "retry", "--source", "ads", "-o", "json"];
        let dry = archive.run(&[&retry[..], &["--dry-run"]].concat());
        let expected = [("ads/7/2026-03-01", "refused"), ("ads/7/2026-03-02", "would_be_done")];
        assert_eq!((outcomes(&dry), dry.code), (pairs(&expected), Some(3)));
        let some = archive.run(&retry);
        let expected = [("ads/7/2026-03-01", "refused"), ("ads/7/2026-03-02", "done")];
        assert_eq!((outcomes(&some), some.code), (pairs(&expected), Some(3)));
        assert!(some.stdout.contains("is gone from the raw sink; --force"), "{}", some.stdout);
        let none = archive.run(&["state", "retry", &day(1), "--yes"]);
        assert_eq!(none.code, Some(4), "--yes answers questions alone: {}", none.stdout);
        archive.run(&["state", "retry", &day(1), "--force"]).ok();
    }
}

// PAR-5, PAR-9
#[test]
fn a_reprocess_is_asked_for_once_and_leaves_the_partition_good() {
    for archive in Archive::both() {
        let key = archive.good(&day(1), &["{\"a\": 1}"]);
        archive.failed(&day(2), 1);
        let before = archive.inspect(&key);
        let again = ["state", "reprocess", "--source", "ads", "-o", "json"];
        assert_eq!(outcomes(&archive.run(&again)), pairs(&[("ads/7/2026-03-01", "done")]));
        assert_eq!(outcomes(&archive.run(&again)), pairs(&[("ads/7/2026-03-01", "already")]));
        let mut after = archive.inspect(&key);
        assert!(
            after["why"]
                .as_str()
                .unwrap()
                .starts_with("the partition is good and will be reprocessed")
        );
        after["why"] = before["why"].clone();
        assert_eq!(after, before);
        archive.reject(&key, SystemClock.now(), true);
        let failed = archive.inspect(&key);
        for untouched in ["status", "current_run_id", "record_count", "schema_version"] {
            assert_eq!(failed[untouched], before[untouched], "{untouched}");
        }
        assert_eq!(failed["attempt_count"], 2);
        let rows = archive.run(&["consume", "cat", &day(1)]).ok();
        assert_eq!(rows, "{\"a\": 1}\n");
    }
}

// PAR-9
#[test]
fn a_paused_partition_says_who_paused_it_and_why() {
    for archive in Archive::both() {
        let key = archive.failed(&day(1), 1);
        let pause = ["state", "pause", &day(1), "--reason", "until noon", "-o", "json"];
        let mut command = archive.command(&pause);
        archive.folder.ended(command.env("USER", "ada").output().unwrap()).ok();
        let row = archive.inspect(&key);
        assert_eq!(
            json!([row["paused"], row["paused_by"], row["pause_reason"], row["next_retry_at"]]),
            json!([true, "ada", "until noon", Value::Null])
        );
        assert!(row["why"].as_str().unwrap().contains("ada paused the partition at "), "{row}");
        let again = archive.run(&["state", "pause", &day(1), "-o", "json"]);
        assert_eq!(outcomes(&again), pairs(&[("ads/7/2026-03-01", "already")]));
        archive.run(&["state", "resume", "--all"]).ok();
        assert_eq!(archive.inspect(&key)["paused"], false);
        archive.run(&["state", "resume", "--all"]).failed(4);
    }
}

// PAR-8
#[test]
fn filters_match_exactly() {
    // What is a pattern, a path or the same to the eye elsewhere is a name of its own here.
    let customers = [
        "%",
        "_",
        "a",
        "A",
        "..",
        "../..",
        ".",
        "CON",
        "a%",
        "a_",
        " a",
        "a ",
        "\u{e9}",
        "e\u{301}",
        "*",
        "'; DROP TABLE partition_state; --",
    ];
    for archive in Archive::both() {
        let date = "2026-03-01".parse().unwrap();
        let key =
            |customer: &str| redrive::PartitionKey::new("ads", customer, "daily", date).unwrap();
        for customer in customers {
            archive.failed(&key(customer).to_string(), 1);
        }
        for (index, customer) in customers.iter().enumerate() {
            let arguments =
                ["state", "retry", "--customer-id", customer, "--dry-run", "-o", "json"];
            let dry = archive.run(&arguments).json();
            let rows = dry.as_array().unwrap();
            assert_eq!(rows.len(), 1, "{customer:?}: {dry}");
            assert_eq!(rows[0]["unit"], format!("partition:{}", key(customer)));
            archive.run(&["state", "retry", "--customer-id", customer]).ok();
            let left = archive.everything().iter().filter(|it| record_is_failed(it)).count();
            assert_eq!(left, customers.len() - index - 1, "{customer:?}");
        }
        for wrong in ["", &"x".repeat(513)] {
            let complaint = archive.run(&["state", "retry", "--customer-id", wrong]).failed(2);
            assert!(complaint.contains("--customer-id"), "{complaint}");
        }
    }
}

// PAR-8, OPS-4
#[test]
fn filters_by_day_include_both_ends() {
    let archive = Archive::on_sqlite();
    for number in 1..=5 {
        archive.failed(&day(number), 1);
    }
    let range = ["--since", "2026-03-02", "--until", "2026-03-04"];
    let dry = archive.run(&[&["state", "retry", "--dry-run", "-o", "json"], &range[..]].concat());
    let days: Vec<String> = outcomes(&dry).into_iter().map(|(place, _)| place).collect();
    assert_eq!(days, ["ads/7/2026-03-02", "ads/7/2026-03-03", "ads/7/2026-03-04"]);
    let backwards = ["--since", "2026-03-04", "--until", "2026-03-02"];
    let complaint = archive.run(&[&["state", "retry"], &backwards[..]].concat()).failed(2);
    assert!(
        complaint.contains("the first day 2026-03-04 is after the last day 2026-03-02"),
        "{complaint}"
    );
    for wrong in ["2026-02-29", "10000-01-01", "yesterday", "2026-3-1"] {
        let complaint = archive.run(&["state", "retry", "--logical-date", wrong]).failed(2);
        assert!(complaint.contains("YYYY-MM-DD"), "{complaint}");
    }
}
