//! `redrive state inspect | history | audit | gaps | verify`, and `redrive why partition:…`.

use std::fs;

use redrive::{Clock, PartitionAction, SystemClock, jiff::ToSpan, jiff::tz::TimeZone};
use serde_json::{Value, json};

use crate::archive::Archive;

// PAR-1, PAR-9, OPS-4
#[test]
fn inspect_shows_every_column_and_what_comes_next() {
    for archive in Archive::both() {
        let key = archive.good("ads/7/daily/2026-03-01", &["{}", "{}"]);
        let row = archive.inspect(&key);
        let names: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        for column in [
            "source",
            "customer_id",
            "query_name",
            "logical_date",
            "status",
            "current_run_id",
            "schema_version",
            "record_count",
            "attempt_count",
            "error_message",
            "updated_at",
            "terminal",
            "paused",
            "next_retry_at",
            "why",
        ] {
            assert!(names.contains(&column), "{column}: {names:?}");
        }
        assert_eq!(
            json!([
                row["status"],
                row["record_count"],
                row["schema_version"],
                row["attempt_count"]
            ]),
            json!(["success", 2, "1", 1])
        );
        assert!(row["current_run_id"].as_str().unwrap().starts_with('r'));

        let failed = archive.failed("ads/7/daily/2026-03-02", 2);
        let row = archive.inspect(&failed);
        let record = archive.partition(&failed).unwrap();
        let Some(redrive::RetryForecast::RetryAt { at, .. }) =
            archive.rules().forecast(&record, SystemClock.now())
        else {
            panic!()
        };
        assert_eq!(row["next_retry_at"], at.to_string(), "what the daemon would do");
        let why = row["why"].as_str().unwrap();
        assert!(why.contains("the daemon retries the partition in"), "{why}");
        assert!(why.contains("failure 2, 5m × 2^1 = 10m, with jitter"), "{why}");
    }
}

// PAR-1
#[test]
fn a_key_without_a_row_has_no_entry_and_none_is_invented() {
    for archive in Archive::both() {
        let key: redrive::PartitionKey = "ads/7/daily/2026-03-01".parse().unwrap();
        let rows = archive.run(&["state", "inspect", &format!("partition:{key}"), "-o", "json"]);
        let rows = rows.json();
        assert_eq!(rows.as_array().map(Vec::len), Some(1), "always a list");
        let row = &rows[0];
        assert_eq!((&row["status"], &row["why"]), (&Value::Null, &json!("no entry")));
        assert_eq!(row["attempt_count"], Value::Null);
        let table = archive.run(&["state", "inspect", "ads/7/daily/2026-03-01"]).ok();
        assert!(table.contains("no entry"), "{table}");
        assert!(archive.everything().is_empty(), "looking makes nothing");
        let complaint = archive.run(&["state", "history", "ads/7/daily/2026-03-01"]).failed(1);
        assert!(complaint.contains("has no entry"), "{complaint}");
        archive.run(&["why", &format!("partition:{key}")]).failed(1);
    }
}

// PAR-5, PAR-9
#[test]
fn a_list_shows_errors_and_one_partition_shows_a_failed_reprocess() {
    for archive in Archive::both() {
        archive.failed("ads/7/daily/2026-03-01", 1);
        let error = archive.inspect(&"ads/7/daily/2026-03-01".parse().unwrap())["error_message"]
            .as_str()
            .unwrap()
            .to_owned();
        let table = archive.run(&["state", "inspect", "--source", "ads"]).ok();
        assert!(table.contains("ERROR") && table.contains(&error), "{table}");

        let good = archive.good("ads/7/daily/2026-03-02", &["{}"]);
        assert_eq!(archive.inspect(&good).get("failed_reprocess"), None);
        archive.done(PartitionAction::Reprocess { lane: redrive::Lane::Fresh }, &good);
        archive.reject(&good, SystemClock.now(), true);
        let row = archive.inspect(&good);
        let failed = row["failed_reprocess"].as_str().unwrap();
        assert!(failed.starts_with("attempt 2 at ") && failed.ends_with(&error), "{failed}");
        assert_eq!((&row["status"], &row["error_message"]), (&json!("success"), &Value::Null));
    }
}

// OPS-4, PAR-9
#[test]
fn lists_come_in_pages_by_key() {
    for archive in Archive::both() {
        for day in 1..=5 {
            archive.pending(&format!("ads/7/daily/2026-03-{day:02}"));
        }
        let mut seen = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut arguments =
                vec!["state", "inspect", "--source", "ads", "--limit", "2", "-o", "json"];
            if let Some(after) = &after {
                arguments.extend(["--after", after]);
            }
            let page = archive.run(&arguments).json();
            let page = page.as_array().unwrap();
            let days = page.iter().map(|row| row["logical_date"].as_str().unwrap().to_owned());
            seen.extend(days);
            if page.len() < 2 {
                break;
            }
            after = Some(format!("partition:ads/7/daily/{}", seen.last().unwrap()));
        }
        let expected: Vec<String> = (1..=5).map(|day| format!("2026-03-{day:02}")).collect();
        assert_eq!(seen, expected);
        let table = archive.run(&["state", "inspect", "--limit", "2"]).ok();
        assert!(table.contains("--after ads/7/daily/2026-03-02"), "{table}");
        archive.run(&["state", "inspect", "--limit", "0"]).failed(2);
        archive.run(&["state", "inspect", "--limit", "10001"]).failed(2);
        archive.run(&["state", "inspect", "--status", "broken"]).failed(2);
    }
}

// PAR-9, OPS-3
#[test]
fn why_tells_attempts_rules_and_what_comes_next() {
    for archive in Archive::both() {
        let key = archive.failed("strict/7/daily/2026-03-01", 2);
        archive.run(&["daemon", "--once", "-q", "-q"]).ok();
        let unit = format!("partition:{key}");
        let story = archive.run(&["why", &unit, "-o", "json"]).json();
        assert_eq!(story["unit"], unit.as_str());
        assert_eq!(story["partition"]["status"], "failed");
        let rules: Vec<&str> = story["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["rule"].as_str().unwrap())
            .collect();
        assert!(rules[0].starts_with("failure 1: 5m × 2^0 = 5m"), "{rules:?}");
        assert_eq!(rules[1], "failure 2; gave up: attempts_exhausted");
        let next = story["next"]["because"].as_str().unwrap();
        assert!(next.contains("2 attempts of 2"), "{next}");
        let actions: Vec<&str> = story["journal"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["action"].as_str().unwrap())
            .collect();
        assert_eq!(actions, ["partition.backfill", "partition.retry", "partition.giveup"]);
        let table = archive.run(&["why", &unit]).ok();
        assert!(table.contains("attempts\n") && table.contains("next: nothing"), "{table}");
    }
}

// PAR-9
#[test]
fn gaps_are_the_expected_days_that_are_missing_or_late() {
    for archive in Archive::both() {
        archive.good("ads/7/daily/2026-01-01", &["{}"]);
        archive.failed("ads/7/daily/2026-01-02", 1);
        archive.pending("ads/7/daily/2026-01-03");
        archive.pending("ads/7/daily/2026-01-04");
        archive.good("ads/7/daily/2026-01-06", &["{}"]);
        archive.terminal("ads/7/daily/2026-01-08");
        let of_seven = ["--source", "ads", "--customer-id", "7", "--until", "2026-01-08"];
        let gaps = archive.run(&[&["state", "gaps", "-o", "json"], &of_seven[..]].concat()).json();
        let row = |since: &str, until: &str, days: u64, gap: &str, status: Value| {
            json!({
                "source": "ads", "customer_id": "7", "query_name": "daily", "since": since,
                "until": until, "days": days, "gap": gap, "status": status
            })
        };
        assert_eq!(
            gaps,
            json!([
                row("2026-01-02", "2026-01-02", 1, "failed", json!("failed")),
                row("2026-01-03", "2026-01-04", 2, "late", json!("pending")),
                row("2026-01-05", "2026-01-05", 1, "missing", Value::Null),
                row("2026-01-07", "2026-01-07", 1, "missing", Value::Null),
                row("2026-01-08", "2026-01-08", 1, "gone", json!("failed")),
            ])
        );
        let table = archive.run(&[&["state", "gaps"], &of_seven[..]].concat()).ok();
        assert!(table.ends_with("2 days missing, 2 late, 1 failed, 1 gone\n"), "{table}");
        // What is not due yet is not missing: the last day is at least the lag ago.
        let all = archive.run(&["state", "gaps", "--source", "ads", "-o", "json"]).json();
        let last = all.as_array().unwrap().last().unwrap()["until"].as_str().unwrap().to_owned();
        let today = SystemClock.now().to_zoned(TimeZone::UTC).date();
        let yesterday = today.checked_sub(1.day()).unwrap().to_string();
        assert!(last <= yesterday && last.as_str() > "2026-02-01", "{last} {yesterday}");
        // A source without a schedule expects what it is told to expect.
        let none = archive.run(&["state", "gaps", "--source", "strict", "-o", "json"]).json();
        assert_eq!(none, json!([]));
        let told = ["--source", "strict", "--since", "2026-01-01", "--until", "2026-01-03"];
        let told = archive.run(&[&["state", "gaps", "-o", "json"], &told[..]].concat()).json();
        assert_eq!(told[0]["days"], 3);
    }
}

// PAR-7, PAR-9, PAR-12
#[test]
fn a_day_that_is_older_than_max_logical_age_is_gone() {
    for archive in Archive::both() {
        let config = archive.folder.read("redrive.toml");
        let config = config.replace("max-attempts = 2", "max-logical-age = \"365d\"");
        archive.folder.write("redrive.toml", config);
        let today = SystemClock.now().to_zoned(TimeZone::UTC).date().to_string();
        archive.failed("strict/7/daily/2020-01-01", 1);
        archive.failed(&format!("strict/7/daily/{today}"), 1);
        let of_days = |since: &str, until: &str| {
            let days = ["--source", "strict", "--since", since, "--until", until, "-o", "json"];
            let gaps = archive.run(&[&["state", "gaps"], &days[..]].concat()).json();
            gaps.as_array().unwrap().iter().map(|row| row["gap"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(of_days("2020-01-01", "2020-01-02"), ["gone", "missing"]);
        assert_eq!(of_days(&today, &today), ["failed"]);
        for (day, state, exit) in [("2020-01-01", "gone", 5), (today.as_str(), "failed", 7)] {
            let unit = format!("partition:strict/7/daily/{day}");
            let complaint = archive.run(&["consume", "cat", &unit]).failed(exit);
            assert!(complaint.contains(&format!("cannot be read: {state}: ")), "{complaint}");
        }
        let cat = archive.run(&["consume", "cat", "--source", "strict"]);
        assert!(cat.stderr.contains("1 failed, 1 gone"), "{}", cat.stderr);
    }
}

// PAR-11
#[test]
fn verify_finds_raw_data_that_is_gone_or_changed() {
    for archive in Archive::both() {
        let key = archive.good("ads/7/daily/2026-03-01", &["{\"a\": 1}"]);
        archive.failed("ads/7/daily/2026-03-02", 2);
        let clean = archive.run(&["state", "verify"]).ok();
        assert!(clean.contains("2 partitions with 3 attempts, 1 raw partitions read"), "{clean}");
        let run_id = archive.partition(&key).unwrap().current_run_id.unwrap();
        let location = archive.raw.location(&key, &run_id);
        let check = |words: &str| {
            let ended = archive.run(&["state", "verify", "-o", "json"]);
            assert_eq!(ended.code, Some(1), "{}", ended.stdout);
            let findings: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(findings.as_array().map(Vec::len), Some(1), "{findings}");
            assert_eq!(findings[0]["unit"], format!("partition:{key}"));
            assert_eq!(findings[0]["invariant"], "raw-data");
            assert!(findings[0]["problem"].as_str().unwrap().contains(words), "{findings}");
        };
        fs::write(&location.payload, "{\"a\": 2}\n").unwrap();
        check("the hash of its payload is not the hash in its metadata");
        let rows = archive.run(&["consume", "cat", "ads/7/daily/2026-03-01"]);
        assert_eq!(rows.code, Some(1), "{}", rows.stderr);
        fs::remove_file(&location.payload).unwrap();
        check("its payload is missing");
        fs::remove_file(&location.metadata).unwrap();
        check("no sealed raw partition");
    }
}

// PAR-8, PAR-9
#[test]
fn the_journal_is_read_by_partition_action_and_filter() {
    for archive in Archive::both() {
        let key = archive.failed("ads/7/daily/2026-03-01", 1);
        archive.failed("strict/7/daily/2026-03-01", 1);
        archive.done(PartitionAction::MarkTerminal, &key);
        let actions = |arguments: &[&str]| {
            let rows = archive.run(&[&["state", "audit", "-o", "json"], arguments].concat()).json();
            let action = |row: &Value| row["action"].as_str().unwrap().to_owned();
            rows.as_array().unwrap().iter().map(action).collect::<Vec<_>>()
        };
        let both = ["partition.backfill", "partition.mark_terminal"];
        assert_eq!(actions(&["--source", "ads"]), both);
        assert_eq!(actions(&[&format!("partition:{key}")]), both);
        assert_eq!(actions(&["--action", "partition.mark_terminal"]), both[1..]);
        assert_eq!(actions(&["--since", "2026-03-02"]), [""; 0]);
        assert_eq!(actions(&[]).len(), 3);
        assert_eq!(actions(&["--limit", "2"]).len(), 2);
        let second = archive.audit(&key)[1]["id"].to_string();
        assert_eq!(actions(&["--after", &second]), [""; 0]);
    }
}

// PAR-1, OPS-4
#[test]
fn a_partition_is_one_line_of_a_list_whatever_is_in_its_key() {
    for archive in Archive::both() {
        let customer = "two\nlines\tand \u{1b}[31mred";
        let backfill = ["state", "backfill", "--source", "ads", "--customer-id", customer];
        let day = ["--since", "2026-03-01", "--until", "2026-03-01", "--allow-unknown"];
        let unit = "partition:ads/two%0Alines%09and%20%1B%5B31mred/daily/2026-03-01";
        let escaped = r"two\nlines\tand \u{1b}[31mred  daily";
        let backfill = [&backfill[..], &day].concat();
        for (list, escaped) in [(&backfill[..], unit), (&["state", "inspect"], escaped)] {
            let shown = archive.run(list).ok();
            let of_it: Vec<&str> = shown.lines().filter(|line| line.contains("two")).collect();
            assert!(matches!(of_it[..], [line] if line.contains(escaped)), "{shown}");
        }
        let listed = archive.run(&["state", "inspect", "-o", "json"]).json();
        assert_eq!(listed[0]["customer_id"], customer, "data is as it is");
    }
}
