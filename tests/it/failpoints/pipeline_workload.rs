//! Pipelines, and what operators, workers and their ends do to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use super::steps::{DRAIN, Step, Workload, run_step};
use crate::{databases::texts, folder::Folder, shop::Shop};

/// Short leases: whatever a killed process held comes back at their end.
const CONFIG: &str = r#"
[[pipeline]]
name = "mill"
source = { jsonl = "corn.jsonl" }

[[pipeline.stage]]
name = "grind"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
policy = { max-attempts = 9, base = "10ms", cap = "50ms", retriable = "by-class" }

[[pipeline.stage]]
name = "sift"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
policy = { max-attempts = 9, base = "10ms", cap = "50ms", retriable = "by-class" }
"#;

/// One fails once, one for good, one is no sample.
const CORN: &str = r#"{"do":"fine"}
{"do":"fine"}
{"do":"flaky"}
{"do":"bad"}
stones
"#;

/// How a run ends: total, succeeded, skipped, dead letters, pending.
const FLOUR: [u64; 5] = [5, 3, 0, 2, 0];

/// Every execution writes itself down.
const STAGE: &str = r#"
echo "$REDRIVE_UNIT $REDRIVE_ATTEMPT" >> executions
read -r call
case "$call" in
*'"do":"flaky"'*) [ "$REDRIVE_ATTEMPT" -gt 1 ] || exit 75 ;;
*'"do":"bad"'*) exit 65 ;;
esac
echo '{"ok": {"do": "fine"}}'
"#;

/// As many samples as run at once, at both stages.
const IN_FLIGHT: usize = 5;

pub(super) const WORKLOAD: Workload = Workload { steps: &STEPS, open, ask_again, check };

const STEPS: [Step; 7] = [
    Step::plain(&["db", "migrate"]),
    // It succeeds in part.
    Step { arguments: &["pipeline", "run", "mill"], signal: None, code: Some(3) },
    REPROCESS,
    RESUME,
    Step::plain(&["pipeline", "run", "mill", "--detach"]),
    RESUME_MOVED,
    DRAIN,
];

/// With other data, which does not help.
const REPROCESS: Step = Step::plain(&[
    "dlq",
    "reprocess",
    "--pipeline",
    "mill",
    "--stage",
    "grind",
    "--set",
    "/edited=true",
    "--yes",
]);

/// The run whose dead letter was brought back: it dies again.
const RESUME: Step = Step { arguments: &["pipeline", "resume", "1"], signal: None, code: Some(3) };

/// A run whose source is not read to its end is moved to where it was read.
const RESUME_MOVED: Step = Step {
    arguments: &["pipeline", "resume", "2", "--source-changed", "--yes"],
    signal: None,
    code: Some(3),
};

fn open(folder: Folder, store: &str) -> Shop {
    folder.write("corn.jsonl", CORN);
    Shop::unopened(folder, store, CONFIG, STAGE)
}

/// Asks for everything again. There are two runs more then, and all come to their end.
#[track_caller]
fn ask_again(shop: &Shop, _: &[Step], context: &str) {
    for step in &STEPS {
        let ended = run_step(shop, step, None);
        // A run that was not written down may have left its number unused, and the second may be over.
        let refused = step.resumes() && ended.code == Some(1);
        assert!(ended.is_as_meant(step) || refused, "{context}: again: {step:?} {ended:#?}");
    }
}

/// Every run came to the same end, its output is there once, and no stage was done again but for what a
/// death interrupted.
#[track_caller]
fn check(shop: &Shop, crashes: usize, context: &str) {
    let doctor = shop.run(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "{context}: {doctor:#?}");
    let runs = shop.run(&["pipeline", "list", "-o", "json"]).json();
    let runs = runs.as_array().unwrap();
    assert!((1..=4).contains(&runs.len()), "{context}: {runs:?}");
    for run in runs {
        assert_eq!(run["status"], "partial_success", "{context}: {run}");
        let counts = ["total", "succeeded", "skipped", "dlq", "pending"];
        assert_eq!(counts.map(|name| run[name].as_u64().unwrap()), FLOUR, "{context}: {run}");
        let output = shop.run(&["pipeline", "output", &run["id"].to_string()]);
        assert_eq!(output.ok().lines().count() as u64, FLOUR[1], "{context}");
    }
    let mut executions: BTreeMap<String, usize> = BTreeMap::new();
    for line in fs::read_to_string(shop.folder.path().join("executions")).unwrap().lines() {
        *executions.entry(line.to_owned()).or_default() += 1;
    }
    let rows = "SELECT 'sample:' || unit_id || '/' || stage || ' ' || attempt FROM attempts
                WHERE kind = 'sample' AND coalesce(cause, '') <> 'lost_worker'";
    let rows: BTreeSet<String> = texts(shop.store(), rows).into_iter().collect();
    for row in &rows {
        assert_eq!(executions.get(row), Some(&1), "{context}: {row}");
    }
    let unwritten = executions.keys().filter(|execution| !rows.contains(*execution)).count();
    assert!(unwritten <= IN_FLIGHT * crashes, "{context}: {executions:?} {rows:?}");
}
