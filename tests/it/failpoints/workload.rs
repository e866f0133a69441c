//! A workload that passes every failpoint: what users, workers and their ends do to a store.

use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
};

use redrive::{Clock, SystemClock, jiff::tz::TimeZone};
use serde_json::{Value, json};

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

[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
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
        ("bad", _) => Reply::status(422),
        _ => Reply::status(200),
    }
}

/// Lines that repeat the first run, so that the last one is in another batch than the rest.
const REPEATS: usize = 1_000;

/// One process of the workload.
#[derive(Debug)]
pub(super) struct Step {
    arguments: &'static [&'static str],
    /// The signal it gets once it has passed a failpoint.
    signal: Option<(&'static str, &'static str)>,
    /// How it ends, unless it dies.
    code: Option<i32>,
}

impl Step {
    const fn plain(arguments: &'static [&'static str]) -> Self {
        Self { arguments, signal: None, code: Some(0) }
    }

    pub(super) fn submits(&self) -> bool {
        self.arguments == SUBMIT.arguments
    }

    /// Whether it is killed whatever it passes.
    pub(super) fn is_killed_anyway(&self) -> bool {
        self.code.is_none()
    }
}

/// In their order. The queue that is worked on first holds no slow run, so its worker comes to an end.
pub(super) const STEPS: [Step; 16] = [
    Step::plain(&["db", "migrate"]),
    Step::plain(&["queue", "pause", "work"]),
    SUBMIT,
    Step::plain(&["queue", "resume", "work"]),
    Step::plain(&["runs", "cancel", "--queue", "work", "--category", "unwanted"]),
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
    DRAIN,
    ADD,
    UPLOAD,
    RESET,
    UPLOAD,
    RESET,
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

const SUBMIT: Step = Step::plain(&["runs", "submit", "--from", "runs.jsonl", "-o", "json"]);
const DRAIN: Step = Step::plain(&["worker", "--drain"]);

/// The exit code of what is refused.
const REFUSED: i32 = 4;

/// What became of a step.
#[derive(Debug)]
pub(super) struct Ended {
    /// The failpoints it passed.
    pub(super) passed: BTreeSet<String>,
    pub(super) killed: bool,
    code: Option<i32>,
    stdout: String,
    /// What it said, apart from the failpoints.
    log: Vec<String>,
}

impl Ended {
    /// Whether a step ended as it does when nothing happens.
    pub(super) fn is_as_meant(&self, step: &Step) -> bool {
        self.code == step.code && self.log.is_empty()
    }
}

/// A shop whose store is still to be made.
pub(super) fn open_shop(folder: Folder, store: &str) -> Shop {
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
    for item in ITEMS {
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

/// Runs a step, and has it killed where it passes a failpoint. Slow handlers may end in the last one.
/// What a killed upload held is waited for.
pub(super) fn run_step(shop: &Shop, step: &Step, kill_at: Option<&str>) -> Ended {
    loop {
        let ended = run_once(shop, step, kill_at);
        if step.arguments != UPLOAD.arguments || ended.code != Some(REFUSED) {
            return ended;
        }
    }
}

fn run_once(shop: &Shop, step: &Step, kill_at: Option<&str>) -> Ended {
    if step.arguments == DRAIN.arguments {
        shop.folder.write("calm", "");
    }
    let mut command = shop.command(&[step.arguments, &["-q", "-q"]].concat());
    command.env("REDRIVE_FAILPOINTS_SEEN", "/dev/stderr");
    command.envs(kill_at.map(|point| ("REDRIVE_KILL_AT", point)));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut passed, mut log) = (BTreeSet::new(), Vec::new());
    let mut signal = step.signal;
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap) {
        let Some(name) = line.strip_prefix("failpoint ") else {
            // Giving up is what it was told to do.
            if !line.contains("gave up on an item") {
                log.push(line);
            }
            continue;
        };
        if let Some((_, signal)) = signal.take_if(|(awaited, _)| name == *awaited) {
            // One that has died meanwhile, and was not waited for, still has its number.
            let number = child.id().to_string();
            assert!(Command::new("kill").args([signal, &number]).status().unwrap().success());
        }
        passed.insert(name.to_owned());
    }
    let output = child.wait_with_output().unwrap();
    let (code, stdout) = (output.status.code(), String::from_utf8(output.stdout).unwrap());
    let killed = output.status.signal() == Some(9);
    Ended { passed, killed, code, stdout, log }
}

/// Asks for everything again, without anybody being stopped or killed. What is cancelled already cannot
/// be again; the rest is done or stays as it is. Says how many runs had not been submitted before.
#[track_caller]
pub(super) fn ask_again(shop: &Shop, context: &str) -> usize {
    shop.folder.write("calm", "");
    let mut accepted = 0;
    for step in STEPS.iter().filter(|step| step.signal.is_none()) {
        let ended = run_step(shop, step, None);
        let cancels = step.arguments.starts_with(&["runs", "cancel"]);
        let fine = ended.is_as_meant(step) || cancels && ended.code == Some(REFUSED);
        assert!(fine, "{context}: again: {step:?} {ended:#?}");
        if step.submits() {
            let tally: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(tally["refused"], 0, "{context}: {tally}");
            accepted = tally["accepted"].as_u64().unwrap() as usize;
        }
    }
    accepted
}
