//! What is wrong is one clear message, and changes nothing.

use super::mill::{CONFIG, Mill};
use crate::{databases::fresh_postgres, folder::Folder};

// OPS-4
#[test]
fn bad_input_is_one_clear_message() {
    let mill = Mill::on_sqlite(CONFIG, &["fine"]);
    let check = |arguments: &[&str], code: i32, part: &str| {
        let complaint = mill.run(arguments).failed(code);
        assert!(complaint.contains(part), "{part:?} is not in {complaint}");
    };
    check(&["pipeline", "run", "flor"], 2, "did you mean `flour`?");
    check(&["pipeline", "run", ""], 2, "there is no pipeline \"\"");
    check(&["pipeline", "run"], 2, "<NAME>");
    check(&["pipeline", "run", "flour", "--grace", "soon"], 2, "--grace <DURATION>");
    for id in ["0", "-1", "+1", "one", "01", "99999999999999999999", "1;drop"] {
        for command in ["status", "stats", "output", "resume", "cancel"] {
            check(&["pipeline", command, id], 2, "an id is a whole number, 1 or greater");
        }
        check(&["dlq", "show", id], 2, "an id is a whole number, 1 or greater");
        check(&["dlq", "reprocess", id], 2, "an id is a whole number, 1 or greater");
        check(&["dlq", "list", "--run", id], 2, "an id is a whole number, 1 or greater");
    }
    check(&["pipeline", "status", "1", "--pipeline", "flour"], 2, "cannot be used with");
    check(&["pipeline", "list", "--status", "done"], 2, "the states are running, completed");
    check(&["pipeline", "list", "--limit", "10001"], 2, "--limit <N>");
    check(&["pipeline", "list", "--after", "0"], 2, "--after <ID>");
    check(&["dlq", "list", "--limit", "0"], 2, "--limit <N>");
    check(&["dlq", "list", "--cause", "zz"], 2, "16 hexadecimal digits");
    check(&["dlq", "list", "--group", "--after", "3"], 2, "cannot be used with");
    check(&["dlq", "reprocess", "3", "--all"], 2, "cannot be combined");
    check(&["pipeline", "status"], 1, "there is no pipeline run in");
    check(&["pipeline", "output", "--pipeline", "flour"], 1, "no pipeline run of \"flour\"");
    check(&["pipeline", "stats", "3"], 1, "there is no pipeline run 3");
    check(&["dlq", "reprocess", "--all"], 4, "no dead letter matches");
    assert_eq!(mill.told(&["dlq", "list"], 0), serde_json::json!([]));
    assert_eq!(mill.told(&["pipeline", "list"], 0), serde_json::json!([]));
}

// OPS-4
#[test]
fn what_cannot_be_run_is_refused_before_a_run_is_started() {
    let complaint = Folder::new().run(&["pipeline", "run", "flour"]).failed(1);
    assert!(complaint.contains("there is no redrive.toml"), "{complaint}");
    let complaint = Folder::with_config("").run(&["pipeline", "run", "flour"]).failed(2);
    assert!(complaint.contains("declares no pipelines"), "{complaint}");
    let folder = Folder::with_config(CONFIG);
    let complaint = folder.run(&["pipeline", "run", "flour"]).failed(1);
    assert!(complaint.contains("in.jsonl: No such file"), "{complaint}");
    for other in ["a folder", "a pipe"] {
        let path = folder.path().join("in.jsonl");
        let make = if other == "a pipe" { "mkfifo" } else { "mkdir" };
        assert!(std::process::Command::new(make).arg(&path).status().unwrap().success());
        let complaint = folder.run(&["pipeline", "run", "flour"]).failed(1);
        assert!(complaint.contains("in.jsonl: not a regular file"), "{other}: {complaint}");
        let gone = if other == "a pipe" { "rm" } else { "rmdir" };
        assert!(std::process::Command::new(gone).arg(&path).status().unwrap().success());
    }
    assert!(!folder.path().join("redrive.db").exists(), "nothing was made");
    folder.write("in.jsonl", "");
    let unmigrated = fresh_postgres();
    let complaint = folder.run(&["pipeline", "run", "flour", "--store", &unmigrated]).failed(1);
    assert!(complaint.contains("redrive db migrate"), "{complaint}");
}

// OPS-4
#[test]
fn no_terminal_sees_what_a_stage_or_a_sample_would_have_it_do() {
    for mill in
        Mill::both(&["escape", "{\"do\": \"fine\", \"\u{9b}31m\": \"\u{202e}\"}", "\u{1b}[31m"])
    {
        let ended = mill.run(&["pipeline", "run", "flour"]);
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        let mut seen = ended.stdout + &ended.stderr;
        for arguments in [
            &["dlq", "list"][..],
            &["dlq", "list", "--group"],
            &["dlq", "list", "-o", "json"],
            &["dlq", "show", "1", "2", "3"],
            &["dlq", "show", "1", "2", "3", "-o", "jsonl"],
            &["why", "sample:1"],
            &["why", "sample:2", "-o", "json"],
            &["pipeline", "stats"],
            &["pipeline", "status"],
        ] {
            seen.push_str(&mill.run(arguments).ok());
        }
        for obeyed in ['\u{1b}', '\u{9b}', '\u{202e}'] {
            assert!(!seen.contains(obeyed), "{obeyed:?} in {seen:?}");
        }
    }
}
