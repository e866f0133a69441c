//! `redrive daemon`.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use redrive::{Clock, PartitionAction, PartitionStatus, SystemClock, jiff::ToSpan};
use serde_json::json;

use crate::archive::Archive;

fn ago(minutes: i64) -> redrive::jiff::Timestamp {
    SystemClock.now().checked_sub(minutes.minutes()).unwrap()
}

// DMN-1
#[test]
fn it_retries_what_is_due_and_leaves_the_rest_alone() {
    for archive in Archive::both() {
        let due = archive.failed_at("ads/7/daily/2026-03-01", 1, ago(6), false);
        let waiting = archive.failed_at("ads/7/daily/2026-03-02", 1, ago(4), false);
        let longer = archive.failed_at("ads/7/daily/2026-03-03", 2, ago(9), false);
        let marked = archive.failed_at("ads/7/daily/2026-03-04", 1, ago(60), false);
        archive.done(PartitionAction::MarkTerminal, &marked);
        let paused = archive.failed_at("ads/7/daily/2026-03-05", 1, ago(60), false);
        archive.done(PartitionAction::Pause, &paused);
        let spent = archive.failed_at("strict/7/daily/2026-03-01", 2, ago(600), false);
        let unknown = archive.failed_at("nobody/7/daily/2026-03-01", 1, ago(6), false);
        let good = archive.good("ads/8/daily/2026-03-01", &["{}"]);

        let before = archive.everything();
        let dry = archive.run(&["daemon", "--once", "--dry-run"]);
        assert_eq!((dry.code, dry.stderr.lines().count()), (Some(0), 2), "{}", dry.stderr);
        assert!(dry.stderr.contains("would retry"), "{}", dry.stderr);
        let listed = archive.run(&["daemon", "--once", "--dry-run", "-o", "json"]);
        assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""));
        let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
        let fields = ["unit", "outcome", "attempt_count"];
        let expected = json!([
            ["partition:ads/7/daily/2026-03-01", "would_be_done", 1],
            ["partition:nobody/7/daily/2026-03-01", "would_be_done", 1]
        ]);
        let told = listed.as_array().unwrap().iter();
        assert_eq!(
            json!(told.map(|row| fields.map(|name| &row[name])).collect::<Vec<_>>()),
            expected
        );
        assert!(
            listed[0]["delay_s"].as_f64().is_some_and(|delay| (270.0..=330.0).contains(&delay)),
            "{listed}"
        );
        assert_eq!(archive.everything(), before, "a dry run changes nothing");
        assert_eq!(archive.audit(&spent).len(), 2, "nor does it tell the journal");

        let real = archive.run(&["daemon", "--once"]);
        assert_eq!(real.code, Some(0), "{}", real.stderr);
        assert_eq!(archive.status(&due), PartitionStatus::Pending);
        assert_eq!(archive.status(&unknown), PartitionStatus::Pending, "by the preset");
        for alone in [&waiting, &longer, &marked, &paused, &spent] {
            assert_eq!(archive.status(alone), PartitionStatus::Failed, "{alone}");
        }
        assert_eq!(archive.status(&good), PartitionStatus::Success);
        let told = archive.audit(&due);
        let told = told.last().unwrap();
        assert!(told["actor"].as_str().unwrap().starts_with("daemon w-"), "{told}");
        assert_eq!(told["details"]["command"], "daemon");
        assert_eq!(
            told["filter"],
            json!({
                "source": "ads", "customer_id": "7", "query_name": "daily"
            })
        );
        archive.run(&["doctor"]).ok();
    }
}

// DMN-4
#[test]
fn each_retry_is_a_line_and_a_tick_with_nothing_to_do_is_quiet() {
    for archive in Archive::both() {
        archive.failed_at("ads/7/daily/2026-03-01", 2, ago(11), false);
        archive.failed("ads/7/daily/2026-03-02", 1);
        let once = ["daemon", "--once", "--log-format", "json"];
        let log = archive.run(&once).stderr;
        let line: serde_json::Value = serde_json::from_str(log.trim_end()).expect(&log);
        assert_eq!(line["partition"], "partition:ads/7/daily/2026-03-01");
        assert_eq!(line["attempt_count"], 2);
        let delay = line["delay"].as_str().unwrap();
        assert!(delay.starts_with("9m") || delay.starts_with("10m"), "10 m ± 30 s: {delay}");
        assert!(log.contains("retrying") && log.contains("20"), "{log}");
        assert_eq!(archive.run(&once).ok(), "", "quiet");
        let listed = archive.run(&["daemon", "--once", "--dry-run", "-o", "json"]).json();
        assert_eq!(listed, json!([]), "nothing is due");
    }
}

// DMN-3
#[test]
fn a_limit_is_told_once_for_each_count_of_attempts() {
    for archive in Archive::both() {
        let key = archive.failed_at("strict/7/daily/2026-03-01", 2, ago(60), false);
        let first = archive.run(&["daemon", "--once"]);
        assert!(first.stderr.contains("gave up"), "{}", first.stderr);
        assert_eq!(archive.run(&["daemon", "--once"]).ok(), "");
        let giveups = || {
            let rows = archive.audit(&key);
            rows.iter().filter(|row| row["action"] == "partition.giveup").count()
        };
        assert_eq!(giveups(), 1);
        archive.run(&["state", "retry", "--source", "strict", "--clear-terminal", "--force"]).ok();
        archive.reject(&key, ago(30), false);
        archive.run(&["daemon", "--once", "-q", "-q"]).ok();
        archive.run(&["daemon", "--once", "-q", "-q"]).ok();
        assert_eq!(giveups(), 2, "one for the second count, one for the third");
        assert_eq!(archive.status(&key), PartitionStatus::Failed);
    }
}

// DMN-2
#[test]
fn three_daemons_and_an_operator_send_each_partition_back_once() {
    for archive in Archive::both() {
        let mut keys = Vec::new();
        for customer in 0..6 {
            for day in 1..=15 {
                let key = format!("ads/c{customer}/daily/2026-03-{day:02}");
                keys.push(archive.failed_at(&key, 1, ago(10), true));
            }
        }
        let start = |arguments: &[&str]| {
            let mut command = archive.command(arguments);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut racers: Vec<_> =
            (0..3).map(|_| start(&["daemon", "--once", "--log-format", "json"])).collect();
        racers.push(start(&["state", "retry", "--source", "ads", "--yes"]));
        let logs: Vec<String> = racers
            .into_iter()
            .map(|racer| {
                let output = racer.wait_with_output().unwrap();
                let log = String::from_utf8(output.stderr).unwrap();
                assert!(matches!(output.status.code(), Some(0 | 1 | 3 | 4)), "{log}");
                log
            })
            .collect();
        let mut retries = BTreeMap::new();
        for key in &keys {
            assert_eq!(archive.status(key), PartitionStatus::Pending, "{key}");
            let told = archive.audit(key);
            let told: Vec<_> =
                told.iter().filter(|row| row["action"] == "partition.retry").collect();
            assert_eq!(told.len(), 1, "{key}: {told:?}");
            *retries.entry(told[0]["actor"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
        assert_eq!(retries.values().sum::<usize>(), keys.len(), "{retries:?}");
        // What the daemons logged is what the journal says they did.
        let logged: usize = logs[..3].iter().map(|log| log.matches("\"retrying\"").count()).sum();
        let by_daemons: usize = retries
            .iter()
            .filter(|(actor, _)| actor.starts_with("daemon "))
            .map(|(_, count)| count)
            .sum();
        assert_eq!(logged, by_daemons, "{logs:?}");
        archive.run(&["state", "verify"]).ok();
    }
}

// DMN-2, OPS-6
#[test]
fn it_ends_at_once_on_a_signal() {
    for archive in Archive::both() {
        archive.failed_at("ads/7/daily/2026-03-01", 1, ago(10), false);
        for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
            let mut command = archive.command(&["daemon", "--interval", "1h"]);
            let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
            let mut log = BufReader::new(child.stderr.take().unwrap());
            let mut line = String::new();
            log.read_line(&mut line).unwrap();
            assert!(line.contains("watching failed partitions"), "{line}");
            let id = child.id().to_string();
            assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
            assert_eq!(child.wait().unwrap().code(), Some(code));
        }
        archive.run(&["state", "verify"]).ok();
    }
}

// DMN-1, OPS-4
#[test]
fn an_interval_must_be_one() {
    let archive = Archive::on_sqlite();
    for wrong in ["0s", "-1s", "soon", "1ms"] {
        archive.run(&["daemon", "--interval", wrong]).failed(2);
    }
}
