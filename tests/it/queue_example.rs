//! `examples/queue` does what it says.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;

use crate::{folder::Folder, source_tree::root};

// OPS-7
#[test]
fn the_example_queue_drains_with_every_kind_of_end() {
    let folder = Folder::new();
    let example = root().join("examples/queue");
    for file in ["redrive.toml", "runs.jsonl", "handle.sh"] {
        folder.write(file, fs::read(example.join(file)).unwrap());
    }
    let handler = folder.path().join("handle.sh");
    let mode = fs::metadata(example.join("handle.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "the handler can be started");
    fs::set_permissions(&handler, fs::Permissions::from_mode(mode)).unwrap();

    folder.run(&["check"]).ok();
    folder.run(&["runs", "submit", "--from", "runs.jsonl"]).ok();
    let worker = folder.run(&["worker", "--drain"]);
    assert_eq!(worker.code, Some(0), "{}", worker.stderr);
    let runs = folder.run(&["runs", "list", "-o", "json"]).json();
    let ends: Vec<_> = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|run| json!([run["category"], run["status"], run["attempts"]]))
        .collect();
    assert_eq!(
        ends,
        [
            json!(["plain", "passed", 1]),
            json!(["flaky", "passed", 3]),
            json!(["busy", "passed", 2]),
            json!(["broken", "error", 1]),
            json!(["down", "error", 4]),
        ]
    );
    let why = folder.run(&["why", "run:2"]).ok();
    assert!(why.contains("counted failure 2 of 4: 200ms × 2^1 = 400ms"), "{why}");
    folder.run(&["doctor"]).ok();
}
