//! Runs and uploads, and what users, workers and their ends do to them.

use std::{fs::OpenOptions, io::Write};

use redrive::{Clock, SystemClock, jiff::tz::TimeZone};
use serde_json::{Value, json};

use super::{
    aftermath::check,
    steps::{DRAIN, REFUSED, Step, Workload, run_step},
};
use crate::{
    folder::Folder,
    shop::Shop,
    upload_server::{Received, Reply, Server},
};

/// Short leases: whatever a killed worker or upload held comes back at their end.
const CONFIG: &str = r#"
[[upload]]
name = "tiles"
url = "URL"
lease = "1s"
backoff-base = "10ms"
backoff-cap = "50ms"
max-in-call-retries = 9
max-item-attempts = 3
giveup-file = "giveups.jsonl"

[[gate]]
name = "api"
concurrency = 2
trip = { failures = 0.5, of = 20, within = "1m" }
base = "10ms"
cap = "50ms"

[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
gates = ["api"]
policy = { max-attempts = 9, base = "10ms", cap = "50ms" }

[[queue]]
name = "slow"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
policy = { max-attempts = 9, base = "10ms", cap = "50ms" }
"#;

/// Appended with the day from which on there are partitions: few of them.
const SOURCE: &str = r#"
[[source]]
name = "days"
customers = ["1"]
queries = ["q"]
extract = { exec = ["/bin/sh", "extract.sh"] }
lease = "1s"
schedule = { every = "day", lag-days = 1, start = "START" }
"#;

const EXTRACTOR: &str = "echo '{\"n\": 1}'; echo '{\"n\": 2}'";

/// Every execution writes itself down. A slow one lasts until it may end, or its folder is gone.
const HANDLER: &str = r#"
echo "$REDRIVE_UNIT $REDRIVE_ATTEMPT" >> executions
case "$REDRIVE_CATEGORY:$REDRIVE_ATTEMPT" in
flaky:1) exit 75 ;;
bad:*) exit 65 ;;
slow:*) until [ -e calm ] || ! [ -e work.sh ]; do sleep 0.05; done ;;
esac
"#;

/// The runs, by key and category, and how each ends.
pub(super) const RUNS: [(&str, &str, &str); 6] = [
    ("1", "fine", "passed"),
    ("2", "flaky", "passed"),
    ("3", "bad", "error"),
    ("4", "unwanted", "cancelled"),
    ("5", "slow", "passed"),
    ("6", "late", "passed"),
];

/// The items, and what the server says of each.
pub(super) const ITEMS: [&str; 3] = ["good", "flaky", "bad"];

fn receive(item: &Received) -> Reply {
    match (item.name.as_str(), item.time) {
        ("flaky", 1) => Reply::status(503),
        ("bad" | "spare", _) => Reply::status(422),
        _ => Reply::status(200),
    }
}

/// Lines that repeat the first run, so that the last one is in another batch than the rest.
const REPEATS: usize = 1_000;

pub(super) const WORKLOAD: Workload = Workload { steps: &STEPS, open: open_shop, ask_again, check };

/// The queue that is worked on first holds no slow run, so its worker comes to an end.
const STEPS: [Step; 23] = [
    Step::plain(&["db", "migrate"]),
    Step::plain(&["queue", "pause", "work"]),
    SUBMIT,
    Step::plain(&["queue", "resume", "work"]),
    Step::plain(&["runs", "cancel", "--queue", "work", "--category", "unwanted"]),
    // Its first run is a probe.
    Step::plain(&["gate", "close", "api", "--for", "1ms"]),
    Step::plain(&["worker", "--drain", "--queues", "work"]),
    // Stopped: it hands its run back.
    Step {
        arguments: &["worker", "--queues", "slow", "--grace", "100ms"],
        signal: Some(("engine.renew.written", "-TERM")),
        code: Some(143),
    },
    // Lost: its run comes back when its lease ends.
    Step {
        arguments: &["worker", "--queues", "slow"],
        signal: Some(("engine.unit.starting", "-KILL")),
        code: None,
    },
    // Keeps the schedule of its source until it has judged a partition.
    Step {
        arguments: &["worker", "--sources", "days"],
        signal: Some(("engine.partition.judged", "-TERM")),
        code: Some(143),
    },
    Step::plain(&["runs", "retry", "--queue", "work"]),
    // What names its runs is no plan, and is written in other steps. There is no such run.
    Step { arguments: &["runs", "retry", "999999"], signal: None, code: Some(1) },
    Step { arguments: &["runs", "cancel", "999999"], signal: None, code: Some(1) },
    DRAIN,
    // The cause of the bad run: final, 65, `the program ended with exit status: 65`.
    Step::plain(&["causes", "mark", "98c4ff1e55a65310", "known"]),
    ADD,
    UPLOAD,
    RESET,
    UPLOAD,
    RESET,
    ADD_SPARE,
    UPLOAD_SPARE,
    DROP_SPARE,
];

const ADD: Step =
    Step::plain(&["uploads", "add", "--upload", "tiles", "--group", "g", "good", "flaky", "bad"]);
const UPLOAD: Step = Step {
    arguments: &["uploads", "run", "--upload", "tiles", "--group", "g"],
    signal: None,
    code: Some(3),
};
const RESET: Step =
    Step::plain(&["uploads", "reset", "--upload", "tiles", "--group", "g", "--yes"]);

/// Given up, and dropped: nothing is left of it but what ledger and journal tell.
const ADD_SPARE: Step =
    Step::plain(&["uploads", "add", "--upload", "tiles", "--group", "spare", "spare"]);
const UPLOAD_SPARE: Step = Step {
    arguments: &["uploads", "run", "--upload", "tiles", "--group", "spare"],
    signal: None,
    code: Some(3),
};
const DROP_SPARE: Step =
    Step::plain(&["uploads", "drop", "--upload", "tiles", "--group", "spare", "--yes"]);

const SUBMIT: Step = Step::plain(&["runs", "submit", "--from", "runs.jsonl", "-o", "json"]);

/// A shop whose store is still to be made.
fn open_shop(folder: Folder, store: &str) -> Shop {
    let line = |(key, category, _): (&str, &str, &str)| {
        let queue = if category == "slow" { "slow" } else { "work" };
        let mut line = json!({ "queue": queue, "category": category, "idempotency_key": key });
        if category == "unwanted" {
            // A worker that drains the queue would wait for it, were it not cancelled.
            line["not_before"] = "9000-01-01T00:00:00Z".into();
        }
        line.to_string()
    };
    let [first, .., last] = RUNS;
    let mut lines: Vec<String> = RUNS.into_iter().filter(|run| *run != last).map(line).collect();
    lines.extend(vec![line(first); REPEATS]);
    lines.push(line(last));
    folder.write("runs.jsonl", lines.join("\n"));
    for item in ITEMS.into_iter().chain(["spare"]) {
        folder.write(item, item);
    }
    // Whatever arrives is written down, for who looks at it afterwards.
    let log = folder.path().join("received");
    let server = Server::new(move |item| {
        let mut log = OpenOptions::new().append(true).create(true).open(&log).unwrap();
        // One write, so that lines of items that come at once stay whole.
        log.write_all(format!("{} {}\n", item.name, item.key).as_bytes()).unwrap();
        receive(item)
    });
    folder.write("extract.sh", EXTRACTOR);
    let yesterday = SystemClock.now().to_zoned(TimeZone::UTC).date().yesterday().unwrap();
    let source = SOURCE.replace("START", &yesterday.to_string());
    let config = CONFIG.replace("URL", &server.url()) + &source;
    Shop::unopened(folder, store, &config, HANDLER)
}

/// Asks for everything again, without anybody being stopped or killed. What is cancelled already cannot
/// be again; the rest is done or stays as it is. What was acknowledged is there.
#[track_caller]
fn ask_again(shop: &Shop, survived: &[Step], context: &str) {
    shop.folder.write("calm", "");
    let submits = |step: &Step| step.arguments == SUBMIT.arguments;
    for step in STEPS.iter().filter(|step| step.signal.is_none()) {
        let ended = run_step(shop, step, None);
        let cancels = step.arguments.starts_with(&["runs", "cancel"]);
        let fine = ended.is_as_meant(step) || cancels && ended.code == Some(REFUSED);
        assert!(fine, "{context}: again: {step:?} {ended:#?}");
        if !submits(step) {
            continue;
        }
        let tally: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(tally["refused"], 0, "{context}: {tally}");
        let accepted = tally["accepted"].as_u64().unwrap() as usize;
        if survived.iter().any(submits) {
            assert_eq!(accepted, 0, "{context}: what was acknowledged is there");
        } else {
            // Batches are there as a whole or not at all.
            assert!([0, 1, RUNS.len()].contains(&accepted), "{context}: {accepted} were not there");
        }
    }
}
