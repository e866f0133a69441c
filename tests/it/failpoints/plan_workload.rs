//! Plans over runs, items and samples, and what operators, workers and their ends do to them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::steps::{REFUSED, Step, Workload, run_step};
use crate::{
    databases::texts,
    folder::Folder,
    shop::Shop,
    upload_server::{Reply, Server},
};

/// Short leases: whatever a killed process held comes back at their end.
const CONFIG: &str = r#"
[plans]
lease = "1s"

[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
policy = { max-attempts = 9, base = "10ms", cap = "50ms" }

[[upload]]
name = "tiles"
url = "URL"
lease = "1s"
backoff-base = "10ms"
backoff-cap = "50ms"
max-item-attempts = 1

[[pipeline]]
name = "mill"
source = { jsonl = "corn.jsonl" }

[[pipeline.stage]]
name = "grind"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
policy = { max-attempts = 9, base = "10ms", cap = "50ms", retriable = "by-class" }
"#;

const CORN: &str = "{\"do\":\"fine\"}\n{\"do\":\"bad\"}\n";

/// Runs fail by their category, samples by their data. A run of category `once` fails until it was tried.
const HANDLER: &str = r#"
read -r call
case "$REDRIVE_CATEGORY:$call" in
once:*) [ -e "tried-$REDRIVE_UNIT" ] || { : > "tried-$REDRIVE_UNIT"; exit 65; } ;;
bad:*|*'"do":"bad"'*) exit 65 ;;
esac
echo '{"ok": {"do": "fine"}}'
"#;

/// By category. The first is the canary.
const RUNS: [&str; 4] = ["once", "bad", "bad", "bad"];

pub(super) const WORKLOAD: Workload = Workload { steps: &STEPS, open, ask_again, check };

const STEPS: [Step; 22] = [
    Step::plain(&["db", "migrate"]),
    SUBMIT,
    WORK,
    // The pace makes the plan last for several renewals of its lease.
    NEW_RETRY,
    Step::plain(&[
        "plan",
        "apply",
        "1",
        "--canary",
        "1",
        "--pace",
        "2/s",
        "--abort-if",
        "100%",
        "--detach",
    ]),
    Step::plain(&["plan", "pause", "1"]),
    Step::plain(&["plan", "resume", "1", "--detach"]),
    EXECUTE,
    NEW_RETRY,
    Step::plain(&["plan", "apply", "2"]),
    Step::plain(&["plan", "undo", "2"]),
    ADD,
    UPLOAD,
    NEW_RESET,
    Step::plain(&["plan", "apply", "3"]),
    UPLOAD,
    EXECUTE,
    GRIND,
    NEW_REPROCESS,
    Step::plain(&["plan", "apply", "4"]),
    RESUME,
    EXECUTE,
];

const SUBMIT: Step = Step::plain(&["runs", "submit", "--from", "runs.jsonl", "-o", "json"]);
const WORK: Step = Step::plain(&["worker", "--drain", "--queues", "work"]);

/// Works and executes plans, until a plan has no unit left to change or to watch.
const EXECUTE: Step = Step {
    arguments: &["worker", "--queues", "work"],
    signal: Some(("engine.plan.released", "-TERM")),
    code: Some(143),
};

const ADD: Step = Step::plain(&["uploads", "add", "--upload", "tiles", "--group", "g", "a", "b"]);
const UPLOAD: Step = Step {
    arguments: &["uploads", "run", "--upload", "tiles", "--group", "g"],
    signal: None,
    code: Some(3),
};

/// It succeeds in part, and so does its resumption.
const GRIND: Step = Step { arguments: &["pipeline", "run", "mill"], signal: None, code: Some(3) };
const RESUME: Step = Step { arguments: &["pipeline", "resume", "1"], signal: None, code: Some(3) };

const NEW_RETRY: Step =
    Step::plain(&["plan", "new", "retry", "--kind", "run", "--queue", "work", "-o", "json"]);
const NEW_RESET: Step =
    Step::plain(&["plan", "new", "reset", "--kind", "item", "--upload", "tiles", "-o", "json"]);
const NEW_REPROCESS: Step = Step::plain(&[
    "plan",
    "new",
    "reprocess",
    "--kind",
    "sample",
    "--pipeline",
    "mill",
    "-o",
    "json",
]);

fn open(folder: Folder, store: &str) -> Shop {
    let line = |(key, category): (usize, &str)| {
        format!(
            "{{\"queue\": \"work\", \"category\": \"{category}\", \"idempotency_key\": \"{key}\"}}\n"
        )
    };
    folder.write("runs.jsonl", RUNS.into_iter().enumerate().map(line).collect::<String>());
    folder.write("corn.jsonl", CORN).write("a", "a").write("b", "b");
    let server = Server::new(|_| Reply::status(422));
    Shop::unopened(folder, store, &CONFIG.replace("URL", &server.url()), HANDLER)
}

/// Asks again for the work that was not survived, brings every plan to its end, and plans everything once more.
#[track_caller]
fn ask_again(shop: &Shop, survived: &[Step], context: &str) {
    let is_plan = |step: &&Step| step.arguments[0] == "plan" || step.signal.is_some();
    for step in STEPS.iter().skip(survived.len()).filter(|step| !is_plan(step)) {
        ask(shop, step, context);
    }
    for plan in plans(shop) {
        let (id, status) = (plan["id"].to_string(), plan["status"].as_str().unwrap());
        match status {
            "draft" => apply_or_abort(shop, &id, context),
            "paused" => shop.run(&["plan", "resume", &id, "--detach"]).ok(),
            _ => String::new(),
        };
    }
    finish_plans(shop, context);
    for (new, work) in [(&NEW_RETRY, &WORK), (&NEW_RESET, &UPLOAD), (&NEW_REPROCESS, &RESUME)] {
        let made = run_step(shop, new, None);
        assert!(made.is_as_meant(new), "{context}: again: {new:?} {made:#?}");
        let plan: Value = serde_json::from_str(&made.stdout).unwrap();
        shop.run(&["plan", "apply", &plan["id"].to_string(), "-q"]).ok();
        ask(shop, work, context);
        finish_plans(shop, context);
    }
}

/// Work that is over already is refused, or has nothing left to fail.
#[track_caller]
fn ask(shop: &Shop, step: &Step, context: &str) {
    let ended = run_step(shop, step, None);
    let over = matches!(ended.code, Some(0 | 1)) && (step.resumes() || step.code == Some(3));
    assert!(ended.is_as_meant(step) || over, "{context}: again: {step:?} {ended:#?}");
}

/// A plan whose list is not complete can only be aborted.
fn apply_or_abort(shop: &Shop, id: &str, context: &str) -> String {
    let applied = shop.run(&["plan", "apply", id, "-q"]);
    if applied.code == Some(0) {
        return applied.stdout;
    }
    assert_eq!(applied.code, Some(REFUSED), "{context}: {applied:#?}");
    shop.run(&["plan", "abort", id]).ok()
}

/// Executes plans while one has units to change, to return or to watch. Each execution ends one.
#[track_caller]
fn finish_plans(shop: &Shop, context: &str) {
    let is_open = |plan: &Value| plan["status"] == "running" || plan["pending"] != 0;
    while plans(shop).iter().any(is_open) {
        // The items and samples among them are uploaded and ground, too.
        ask(shop, &UPLOAD, context);
        if !shop.run(&["pipeline", "list", "-o", "json"]).json().as_array().unwrap().is_empty() {
            ask(shop, &RESUME, context);
        }
        let ended = run_step(shop, &EXECUTE, None);
        assert!(ended.is_as_meant(&EXECUTE), "{context}: again: {ended:#?}");
    }
}

fn plans(shop: &Shop) -> Vec<Value> {
    shop.run(&["plan", "list", "-o", "json"]).json().as_array().unwrap().clone()
}

/// Every plan has ended, knows the outcome of each unit, and has one journal entry for each unit that it changed.
#[track_caller]
fn check(shop: &Shop, _: usize, context: &str) {
    let doctor = shop.run(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "{context}: {doctor:#?}");
    let mut changes: BTreeMap<(i64, String), u64> = BTreeMap::new();
    let entries = "SELECT unit || ' ' || details FROM journal
                   WHERE action IN ('run.retry', 'upload.reset', 'sample.reprocess')";
    for entry in texts(shop.store(), entries) {
        let (unit, details) = entry.split_once(' ').unwrap();
        let details: Value = serde_json::from_str(details).unwrap();
        let plan = details["plan"].as_i64().expect("only plans change units here");
        *changes.entry((plan, unit.to_owned())).or_default() += 1;
    }
    for (change, times) in &changes {
        assert_eq!(*times, 1, "{context}: {change:?}");
    }
    for plan in plans(shop) {
        let number = |name: &str| plan[name].as_u64().unwrap();
        let of_plan = changes.keys().filter(|(id, _)| plan["id"] == *id).count() as u64;
        assert_eq!(number("changed"), of_plan, "{context}: {plan}");
        assert_eq!(number("pending"), 0, "{context}: {plan}");
        let ended = ["recovered", "same_cause", "other_cause", "superseded", "undone"];
        assert_eq!(ended.map(number).iter().sum::<u64>(), of_plan, "{context}: {plan}");
        match plan["status"].as_str().unwrap() {
            "done" => assert_eq!(number("total"), of_plan + number("skipped"), "{context}: {plan}"),
            "undone" => {}
            // Killed before its list was complete.
            "aborted" => assert_eq!(of_plan, 0, "{context}: {plan}"),
            status => panic!("{context}: {status}: {plan}"),
        }
    }
}
