//! `examples/handlers` does what it says.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use serde_json::{Value, json};

use crate::{folder::Folder, source_tree::root};

/// Whether there is a Python to try the helper with.
fn has_python() -> bool {
    Command::new("python3").arg("--version").output().is_ok()
}

fn example() -> Folder {
    let folder = Folder::new();
    let example = root().join("examples/handlers");
    for file in ["redrive.toml", "runs.jsonl", "redrive.py", "classify.py", "greet.sh"] {
        folder.write(file, fs::read(example.join(file)).unwrap());
    }
    let mode = fs::metadata(example.join("greet.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "the handler can be started");
    fs::set_permissions(folder.path().join("greet.sh"), fs::Permissions::from_mode(mode)).unwrap();
    folder.run(&["check"]).ok();
    folder.run(&["runs", "submit", "--from", "runs.jsonl"]).ok();
    folder
}

fn ends(folder: &Folder, queue: &str) -> Vec<Value> {
    let runs = folder.run(&["runs", "list", "--queue", queue, "-o", "json"]).json();
    let end = |run: &Value| json!([run["status"], run["attempts"], run["result"]]);
    runs.as_array().unwrap().iter().map(end).collect()
}

// HANDLERS-3
#[test]
fn the_shell_handler_answers_call_after_call() {
    let folder = example();
    folder.run(&["worker", "--drain", "-q", "-q", "--queues", "greet"]).ok();
    let expected = [json!(["passed", 1, "Hello, Ada"]), json!(["error", 1, null])];
    assert_eq!(ends(&folder, "greet"), expected);
    folder.run(&["doctor"]).ok();
}

// HANDLERS-3
#[test]
fn the_python_handler_answers_with_every_kind_of_reply() {
    if !has_python() {
        return eprintln!("skipped: there is no python3 here");
    }
    let folder = example();
    folder.run(&["worker", "--drain", "-q", "-q", "--queues", "classify"]).ok();
    let expected = [
        json!(["passed", 1, { "label": "short" }]),
        json!(["passed", 1, { "label": "long" }]),
        json!(["passed", 2, { "label": "short" }]),
        json!(["needs_review", 1, { "label": "unclear" }]),
        json!(["error", 1, null]),
        json!(["error", 3, null]),
    ];
    assert_eq!(ends(&folder, "classify"), expected);
    folder.run(&["doctor"]).ok();
}

// HANDLERS-3
#[test]
fn a_python_handler_may_give_an_exception_for_a_reason() {
    if !has_python() {
        return eprintln!("skipped: there is no python3 here");
    }
    let folder = example();
    let handler = r#"
import redrive

@redrive.handler
def classify(call):
    raise redrive.Final(KeyError("text"), code="no_text")

redrive.serve()
"#;
    folder.write("classify.py", handler);
    folder.run(&["worker", "--drain", "-q", "-q", "--queues", "classify"]).ok();
    assert_eq!(ends(&folder, "classify"), vec![json!(["error", 1, null]); 6], "all are final");
}
