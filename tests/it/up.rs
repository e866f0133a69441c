//! `redrive up`: everything in one process.

mod endings;
mod process;
mod quickstart;
mod refusals;
mod seeds;
mod terminal;

pub(crate) use process::Process;
pub(crate) use quickstart::Quickstart;

use redrive::{
    Clock, SystemClock,
    jiff::{ToSpan, tz::TimeZone},
};
use serde_json::Value;

use crate::{
    databases::{fresh_postgres, one_of_each},
    folder::Folder,
};

/// A queue, a source with a schedule, and a pipeline.
const CONFIG: &str = r#"
[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 3, base = "10ms", cap = "1s" }

[[source]]
name = "ads"
customers = ["7"]
queries = ["daily"]
extract = { exec = ["/bin/sh", "extract.sh"] }
policy = { max-attempts = 3, base = "10ms", cap = "20ms", jitter = "none" }
schedule = { every = "day", at = "00:00", lag-days = 1, start = "START" }

[[pipeline]]
name = "flour"
source = { jsonl = "in.jsonl" }

[[pipeline.stage]]
name = "grind"
handler = { exec = ["/bin/sh", "grind.sh"] }

[up]
submit = ["runs.jsonl"]
pipelines = ["flour"]
"#;

/// Runs of category `gate` wait at a pipe.
const WORK: &str = r#"
case "$REDRIVE_CATEGORY" in
gate) read -r word < gate; echo "{\"ok\": \"$word\"}" ;;
stuck) trap '' TERM; read -r word < gate ;;
bad) echo 'cannot be read' >&2; exit 65 ;;
*) echo '{"ok": "done"}' ;;
esac
"#;

/// Every day fails once.
const EXTRACT: &str = r#"
[ "$REDRIVE_ATTEMPT" -gt 1 ] || { echo 'not yet' >&2; exit 75; }
echo '{"row": 1}'
"#;

/// A folder with all of it.
fn folder() -> Folder {
    let folder = Folder::with_config(&CONFIG.replace("START", &days_ago(3)));
    folder
        .write("work.sh", WORK)
        .write("extract.sh", EXTRACT)
        .write("grind.sh", "read -r call\necho '{\"ok\": {\"ground\": true}}'\n")
        .write("in.jsonl", "{\"sack\": 1}\n{\"sack\": 2}\n")
        .write("runs.jsonl", "{\"queue\": \"work\", \"idempotency_key\": \"first\"}\n");
    folder
}

/// A day of the past, as files write it.
fn days_ago(days: i64) -> String {
    let today = SystemClock.now().to_zoned(TimeZone::UTC).date();
    today.checked_sub(days.days()).unwrap().to_string()
}

// OPS-1, OPS-6, OPS-7
#[test]
fn one_process_does_the_work_retries_partitions_and_answers() {
    let sqlite = folder();
    let url = format!("sqlite:{}", sqlite.path().join("store.db").display());
    // Nobody has migrated the database.
    for (folder, store) in [(sqlite, url), (folder(), fresh_postgres())] {
        let mut up = Process::up(&folder, &["--store", &store, "--interval", "100ms"]);
        let told = |arguments: &[&str]| {
            folder.run(&[arguments, &["--store", &store, "-o", "json"]].concat()).json()
        };
        up.until("the run passed", || told(&["runs", "list"])[0]["status"] == "passed");
        up.until("every day is good, at the second attempt", || {
            let days = told(&["state", "inspect"]);
            let days = days.as_array().unwrap();
            let good = |day: &Value| day["status"] == "success" && day["attempt_count"] == 2;
            !days.is_empty() && days.iter().all(good)
        });
        up.until("the pipeline is through", || {
            told(&["pipeline", "list"])[0]["status"] == "completed"
        });
        let audit = told(&["state", "audit"]);
        let by_daemon = |row: &Value| {
            row["action"] == "partition.retry"
                && row["actor"].as_str().unwrap().starts_with("daemon ")
        };
        assert!(audit.as_array().unwrap().iter().any(by_daemon), "{audit}");

        let (status, runs) = up.get("/v1/runs");
        assert_eq!((status, runs.contains("\"passed\"")), (200, true), "{runs}");
        assert_eq!(up.get("/readyz").0, 200);
        up.signal("-TERM");
        let (code, log) = up.end();
        assert_eq!(code, Some(143), "{log}");
        folder.run(&["doctor", "--store", &store]).ok();
    }
}

// OPS-2, RUN-7
#[test]
fn two_of_them_share_a_store_each_at_an_address_of_its_own() {
    let here = folder();
    for store in one_of_each(&here) {
        let run = |arguments: &[&str]| here.run(&[arguments, &["--store", &store]].concat());
        // At once, on a store that nobody has made yet.
        let [first, second] =
            [(); 2].map(|()| Process::starting(&here, &["up", "--store", &store]));
        let [mut first, second] = [first.listening(), second.listening()];
        let taken = first.address().to_owned();
        let complaint = run(&["up", "--listen", &taken]).failed(1);
        assert!(complaint.contains(&taken) && complaint.contains("--listen"), "{complaint}");
        for _ in 0..20 {
            run(&["runs", "submit", "--queue", "work"]).ok();
        }
        first.until("all runs passed", || {
            run(&["runs", "stats", "-o", "json"]).json()[0]["runs"]["passed"] == 21
        });
        for up in [&first, &second] {
            assert_eq!(up.get("/v1/runs").0, 200);
        }
        let ledger = run(&["runs", "list", "-o", "json"]).json();
        assert!(ledger.as_array().unwrap().iter().all(|run| run["attempts"] == 1), "{ledger}");
        let pipelines = run(&["pipeline", "list", "-o", "json"]).json();
        assert_eq!(pipelines.as_array().unwrap().len(), 1, "started once: {pipelines}");
        for up in [&first, &second] {
            up.signal("-TERM");
        }
        assert_eq!((first.end().0, second.end().0), (Some(143), Some(143)));
        run(&["doctor"]).ok();
    }
}

#[test]
fn a_file_that_declares_no_work_is_served_all_the_same() {
    let folder = Folder::with_config("");
    let up = Process::up(&folder, &[]);
    let (status, answer) = up.post("/v1/runs", r#"{"queue": "later"}"#);
    assert!(answer.contains("accepted"), "{status} {answer}");
    up.signal("-INT");
    assert_eq!(up.end().0, Some(130));
}
