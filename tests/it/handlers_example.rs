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
    let function = r#"
def classify(call):
    raise redrive.Final(KeyError("text"), code="no_text")
"#;
    let Some((folder, _)) = classified_by(function, "") else {
        return eprintln!("skipped: there is no python3 here");
    };
    assert_eq!(ends(&folder, "classify"), vec![json!(["error", 1, null]); 6], "all are final");
}

/// The six runs, handled by this function in one process with all of them in flight, and the worker's log.
fn classified_by(function: &str, serve: &str) -> Option<(Folder, String)> {
    if !has_python() {
        return None;
    }
    let folder = example();
    let handler = format!(
        "import asyncio, os, threading\nimport redrive\n\nmet = threading.Barrier(6)\ncount = 0\n\n\
         @redrive.handler{function}\nredrive.serve({serve})\n"
    );
    folder.write("classify.py", handler);
    let config = folder.read("redrive.toml");
    folder.write("redrive.toml", config.replace("processes = 2", "processes = 1"));
    let log = folder.run(&["worker", "--drain", "--queues", "classify"]);
    assert_eq!(log.code, Some(0), "{}", log.stderr);
    Some((folder, log.stderr))
}

// HANDLERS-3
#[test]
fn a_python_handler_has_as_many_calls_at_once_as_are_in_flight() {
    let threads = r#"
def classify(call):
    met.wait(20)
    return call.key
"#;
    let tasks = r#"
async def classify(call):
    global count
    count += 1
    while count < 6:
        await asyncio.sleep(0)
    return call.key
"#;
    for function in [threads, tasks] {
        let Some((folder, _)) = classified_by(function, "") else {
            return eprintln!("skipped: there is no python3 here");
        };
        let all = (1..=6).map(|run| json!(["passed", 1, format!("run:{run}")]));
        assert_eq!(ends(&folder, "classify"), all.collect::<Vec<_>>(), "{function}");
    }
}

// HANDLERS-3
#[test]
fn a_python_handler_that_takes_one_call_at_a_time_says_so() {
    let Some((folder, log)) =
        classified_by("\ndef classify(call):\n    return 1\n", "threads=False")
    else {
        return eprintln!("skipped: there is no python3 here");
    };
    assert_eq!(ends(&folder, "classify"), vec![json!(["passed", 1, 1]); 6]);
    assert!(log.contains("set in-flight = 1 and processes = 8"), "{log}");
}

// HANDLERS-3, LOG-2
#[test]
fn a_python_program_that_dies_shows_each_run_its_own_lines() {
    let function = r#"
def classify(call):
    if call["attempt"] > 1:
        return 1
    print("working on", call.key)
    met.wait(20)
    if call.key == "run:2":
        os._exit(1)
    met.wait(20)
"#;
    let Some((folder, _)) = classified_by(function, "") else {
        return eprintln!("skipped: there is no python3 here");
    };
    for run in 1..=6 {
        let why = folder.run(&["why", &format!("run:{run}"), "-o", "json"]).json();
        let expected =
            format!("the program ended with exit status: 1\nstderr: working on run:{run}");
        assert_eq!(why["attempts"][0]["message"], expected);
    }
}

// HANDLERS-3
#[test]
fn an_exception_of_a_python_handler_is_told_with_its_type_and_place() {
    let function = "\ndef classify(call):\n    raise ValueError(\"bad day\")\n";
    let Some((folder, _)) = classified_by(function, "") else {
        return eprintln!("skipped: there is no python3 here");
    };
    let why = folder.run(&["why", "run:1", "-o", "json"]).json();
    let message = why["attempts"][0]["message"].as_str().unwrap();
    let head = "ValueError: bad day (classify.py:9 in classify)\nstderr: Traceback";
    assert!(message.starts_with(head), "{message}");
}

// HANDLERS-3
#[test]
fn whatever_a_python_handler_raises_is_a_reply() {
    let raises = |function: &str, error: &str| format!("\n{function}\n    raise {error}\n");
    let (threads, tasks) = ("def classify(call):", "async def classify(call):");
    for (function, serve, name) in [
        (raises(threads, "KeyboardInterrupt"), "", "KeyboardInterrupt"),
        (raises(threads, "KeyboardInterrupt"), "threads=False", "KeyboardInterrupt"),
        (raises(threads, "GeneratorExit"), "", "GeneratorExit"),
        (raises(tasks, "__import__('asyncio').CancelledError"), "", "CancelledError"),
    ] {
        let Some((folder, _)) = classified_by(&function, serve) else {
            return eprintln!("skipped: there is no python3 here");
        };
        let why = folder.run(&["why", "run:1", "-o", "json"]).json();
        let codes: Vec<_> =
            why["attempts"].as_array().unwrap().iter().map(|it| &it["code"]).collect();
        assert!(!codes.is_empty() && codes.iter().all(|code| *code == name), "{why}");
    }
}
