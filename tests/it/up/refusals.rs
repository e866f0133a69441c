//! What is wrong is said before anything begins.

use std::net::TcpListener;

use super::folder;
use crate::folder::Folder;

/// Nothing was submitted, and nothing started.
#[track_caller]
fn nothing_began(folder: &Folder) {
    folder.run(&["db", "migrate", "-q"]).code.unwrap();
    assert_eq!(folder.run(&["runs", "list", "-o", "json"]).json(), serde_json::json!([]));
    assert_eq!(folder.run(&["pipeline", "list", "-o", "json"]).json(), serde_json::json!([]));
}

// OPS-4
#[test]
fn an_address_that_is_taken_fails_all_of_it() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let complaint = folder.run(&["up", "--listen", &address]).failed(1);
    assert!(complaint.contains(&format!("cannot listen on {address}")), "{complaint}");
    assert!(complaint.contains("--listen"), "it says what to do: {complaint}");
    nothing_began(&folder);
}

// OPS-4
#[test]
fn an_address_that_others_can_reach_needs_a_token() {
    let folder = folder();
    let complaint = folder.run(&["up", "--listen", "0.0.0.0:0"]).failed(1);
    assert!(complaint.contains("operator-token"), "{complaint}");
    nothing_began(&folder);
}

// OPS-4
#[test]
fn a_folder_is_the_one_with_the_file() {
    let folder = folder();
    folder.write("empty/note.txt", "");
    let complaint = folder.run(&["up", "empty"]).failed(1);
    assert!(complaint.contains("there is no redrive.toml in empty"), "{complaint}");
    let complaint = folder.run(&["up", ".", "--config", "redrive.toml"]).failed(2);
    assert!(complaint.contains("both select the configuration"), "{complaint}");
    let complaint = Folder::new().run(&["up"]).failed(1);
    assert!(complaint.contains("there is no redrive.toml in this folder"), "{complaint}");
    for wrong in ["0s", "1ms", "soon"] {
        folder.run(&["up", "--interval", wrong]).failed(2);
    }
}

// OPS-4
#[test]
fn what_it_is_to_start_with_must_be_readable() {
    #[track_caller]
    fn check(line: &str, complaint: &[&str]) {
        let folder = folder();
        let good = "{\"queue\": \"work\", \"idempotency_key\": \"first\"}";
        folder.write("runs.jsonl", format!("{good}\n\n{line}\n"));
        let said = folder.run(&["up", "--listen", "127.0.0.1:0"]).failed(1);
        for words in complaint {
            assert!(said.contains(words), "{words:?} is not in {said}");
        }
        nothing_began(&folder);
    }
    check("{\"queue\": \"work\"}", &["runs.jsonl, line 3", "no idempotency_key", "every start"]);
    check("{\"idempotency_key\": \"a\"}", &["line 3", "names no queue"]);
    check("[]", &["line 3", "not a JSON object"]);

    let folder = folder();
    std::fs::remove_file(folder.path().join("in.jsonl")).unwrap();
    let said = folder.run(&["up", "--listen", "127.0.0.1:0"]).failed(1);
    assert!(said.contains("cannot read the source of pipeline \"flour\""), "{said}");
    nothing_began(&folder);
    std::fs::remove_file(folder.path().join("runs.jsonl")).unwrap();
    let said = folder.run(&["up", "--listen", "127.0.0.1:0"]).failed(1);
    assert!(said.contains("runs.jsonl") && said.contains("[up]"), "{said}");
}
