//! `redrive runs submit`.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{databases::execute, folder::Folder, shop::Shop};

/// How many runs a store has.
#[track_caller]
fn count(shop: &Shop) -> u64 {
    let stats = shop.run(&["runs", "stats", "-o", "json"]).json();
    let queues = stats.as_array().unwrap().iter();
    queues
        .flat_map(|queue| queue["runs"].as_object().unwrap().values())
        .filter_map(Value::as_u64)
        .sum()
}

// RUN-6, RUN-1
#[test]
fn a_run_by_flags_keeps_what_it_was_given() {
    for shop in Shop::both() {
        let submitted = shop.run(&[
            "runs",
            "submit",
            "--queue",
            "work",
            "--category",
            "fine",
            "--payload",
            "{\"b\":1,\"a\":[2]}",
            "--submitted-at",
            "2026-01-31T09:00:00.123456789+01:00",
            "--not-before",
            "2999-01-01T00:00:00Z",
            "--idempotency-key",
            "order-7",
            "-o",
            "json",
        ]);
        assert_eq!(submitted.json(), json!({ "id": 1, "queue": "work", "outcome": "accepted" }));
        let expected = json!({
            "id": 1,
            "queue": "work",
            "category": "fine",
            "payload": { "a": [2], "b": 1 },
            "submitted_at": "2026-01-31T08:00:00.123456Z",
            "not_before": "2999-01-01T00:00:00Z",
            "status": "discovered",
            "retry_count": 0,
            "next_retry_at": null,
            "error_class": null,
            "error_code": null,
            "error_message": null,
            "fingerprint": null,
            "last_failure_at": null,
            "attempts": 0,
            "attempts_at_reset": 0,
            "deferrals": 0,
            "first_attempt_at": null,
            "idempotency_key": "order-7",
            "lease_owner": null,
            "lease_until": null,
        });
        assert_eq!(shop.show(1), expected);
    }
}

// RUN-1, RUN-6
#[test]
fn a_number_keeps_its_digits_through_the_handler_and_back() {
    let echo = r#"
read -r call
payload=${call#*'"payload":'}
echo "{\"ok\": ${payload%',"queue"'*}}"
"#;
    for shop in Shop::both() {
        shop.folder.write("work.sh", echo);
        let submit = |payload: &str| {
            let run = ["runs", "submit", "--queue", "work", "--idempotency-key", "k", "-o", "json"];
            shop.run(&[&run[..], &["--payload", payload]].concat()).json()
        };
        let payload = r#"{"big":100000000000000000001,"huge":1e+999,"long":0.12345678901234567891,"price":1.5}"#;
        assert_eq!(submit(payload)["outcome"], "accepted");
        let padded = payload.replace("1.5}", "1.50}");
        assert_eq!(submit(&padded)["outcome"], "duplicate", "the same number");
        shop.drain();
        let run = shop.show(1);
        assert_eq!([run["payload"].to_string(), run["result"].to_string()], [payload; 2]);
    }
}

// RUN-6
#[test]
fn an_idempotency_key_makes_a_second_submit_a_no_op_or_a_refusal() {
    for shop in Shop::both() {
        let submit = |payload: &str| {
            let key = ["--idempotency-key", "k", "--payload", payload];
            shop.run(&[&["runs", "submit", "--queue", "work", "-o", "json"], &key[..]].concat())
        };
        assert_eq!(submit("{\"a\":1}").json()["outcome"], "accepted");
        let again = submit("{ \"a\" : 1 }").json();
        assert_eq!(again, json!({ "id": 1, "queue": "work", "outcome": "duplicate" }));
        let complaint = submit("{\"a\":2}").failed(1);
        assert!(
            complaint.contains("run 1 has the same idempotency_key and other content"),
            "{complaint}"
        );
        assert_eq!(count(&shop), 1);
    }
}

// RUN-6, OPS-4
#[test]
fn refused_lines_are_named_and_do_not_stop_the_rest() {
    let lines = r#"{"queue": "work", "category": "fine", "payload": {"n": 1}, "idempotency_key": "a"}
{"payload": {"n": 2}}

{"queue": "work", "priority": 3}
{"queue": "work", "idempotency_key": "a", "payload": {"n": 1}, "category": "fine"}
["work"]
{"queue": "work", "idempotency_key": "a", "payload": "other"}
{"queue": "work", "not_before": "tomorrow"}"#;
    for shop in Shop::both() {
        shop.folder.write("runs.jsonl", lines);
        let arguments =
            ["runs", "submit", "--from", "runs.jsonl", "--queue", "patient", "-o", "json"];
        let ended = shop.run(&arguments);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let result: Value = serde_json::from_str(&ended.stdout).unwrap();
        let counts = json!([
            result["accepted"],
            result["duplicate"],
            result["refused"],
            result["through_line"]
        ]);
        assert_eq!(counts, json!([2, 1, 4, 8]));
        let refusals = result["refusals"].as_array().unwrap();
        let expected = [
            (4, "unknown field `priority`"),
            (6, "not a JSON object"),
            (7, "run 1 has the same idempotency_key and other content"),
            (8, "not_before \"tomorrow\" is not an instant"),
        ];
        assert_eq!(refusals.len(), expected.len());
        for ((refusal, (line, reason)), said) in
            refusals.iter().zip(expected).zip(ended.stderr.lines())
        {
            assert_eq!(refusal["line"], line);
            assert!(refusal["reason"].as_str().unwrap().contains(reason), "{refusal}");
            assert!(said.starts_with(&format!("line {line}: ")) && said.contains(reason), "{said}");
        }
        assert_eq!(shop.show(2)["queue"], "patient", "the default for lines without one");
        assert_eq!(count(&shop), 2);

        let again = shop.run_reading("{}\n", &["runs", "submit", "--from", "-", "-o", "json"]);
        assert_eq!(again.code, Some(1), "all were refused");
        assert!(again.stderr.contains("names no queue"), "{}", again.stderr);
        let nothing = shop.run_reading("\n\n", &["runs", "submit", "--from", "-", "-o", "json"]);
        assert_eq!(nothing.json()["accepted"], 0);
    }
}

// RUN-6, OPS-4
#[test]
fn a_queue_that_is_not_declared_is_refused_unless_it_is_intended() {
    let shop = Shop::on_sqlite();
    let submit = ["runs", "submit", "--queue", "wrok"];
    let refused = shop.run(&submit).failed(4);
    for words in ["declares no queue \"wrok\"", "did you mean `work`?", "--allow-unknown"] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    let lines = [
        json!({ "queue": "wrok" }),
        json!({ "queue": "wrok", "allow_unknown": true }),
        json!({ "queue": "work" }),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let from = ["runs", "submit", "--from", "-", "-o", "json"];
    let some = shop.run_reading(&lines, &from);
    assert_eq!(some.code, Some(3), "{some:#?}");
    assert!(some.stdout.contains("declares no queue"), "{}", some.stdout);
    shop.run(&[&submit[..], &["--allow-unknown"]].concat()).ok();
    let all = shop.run_reading(&lines, &[&from[..], &["--allow-unknown"]].concat()).json();
    assert_eq!(all["accepted"], 3, "{all}");
}

// RUN-6
#[test]
fn a_large_file_is_submitted_to_its_last_line() {
    let mut lines = String::new();
    for number in 1..=50_000 {
        match number % 5_000 {
            0 => lines.push_str("{\"queue\": }\n"),
            _ => writeln!(lines, "{{\"queue\": \"work\", \"payload\": {{\"n\": {number}}}}}")
                .unwrap(),
        }
    }
    for shop in Shop::both() {
        shop.folder.write("runs.jsonl", &lines);
        let ended = shop.run(&["runs", "submit", "--from", "runs.jsonl", "-q", "-o", "json"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(3), ""));
        let result: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((&result["accepted"], &result["refused"]), (&json!(49_990), &json!(10)));
        assert_eq!(result["refusals"][9]["line"], 50_000);
        assert_eq!(count(&shop), 49_990);
        assert_eq!(
            shop.show(49_990)["payload"],
            json!({ "n": 49_999 }),
            "in the order of the file"
        );
    }
}

// RUN-6
#[test]
fn lines_of_a_pipe_are_in_the_queue_before_the_next_one_comes() {
    for shop in Shop::both() {
        let mut command = shop.command(&["runs", "submit", "--from", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"{\"queue\": \"work\"}\nnonsense\n").unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut said).unwrap();
        assert!(said.starts_with("line 2: "), "{said}");
        assert_eq!(count(&shop), 1, "the pipe is still open");
        drop(input);
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
}

// RUN-6
#[test]
fn a_line_without_end_costs_no_memory_and_is_refused() {
    let shop = Shop::on_sqlite();
    let mut text = b"{\"queue\": \"work\", \"payload\": \"".to_vec();
    text.resize(9 * 1024 * 1024, b'x');
    text.extend_from_slice(b"\n{\"queue\": \"work\"}\n");
    let ended = shop.run_reading(&text, &["runs", "submit", "--from", "-", "-o", "json"]);
    assert_eq!(ended.code, Some(3));
    assert!(
        ended.stderr.contains("line 1: the line has more than 4194304 bytes"),
        "{}",
        ended.stderr
    );
    assert_eq!(count(&shop), 1);
    let large = format!("{{\"queue\": \"work\", \"payload\": \"{}\"}}", "x".repeat(1024 * 1024));
    let ended = shop.run_reading(&large, &["runs", "submit", "--from", "-"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("payload is not allowed"), "{}", ended.stderr);
}

// RUN-6
#[test]
fn a_store_that_fails_on_the_way_keeps_what_it_acknowledged() {
    let lines = "{\"queue\": \"work\"}\n".repeat(2_500) + "{\"queue\": \"boom\"}\n";
    for shop in Shop::both() {
        shop.folder.write("runs.jsonl", &lines);
        if shop.store().starts_with("sqlite") {
            let connection = Connection::open(shop.folder.path().join("store.db")).unwrap();
            let trigger = "CREATE TRIGGER boom BEFORE INSERT ON runs WHEN NEW.queue = 'boom' \
                           BEGIN SELECT RAISE(ABORT, 'trouble'); END";
            connection.execute_batch(trigger).unwrap();
        } else {
            let check = "ALTER TABLE redrive.runs ADD CONSTRAINT boom CHECK (queue <> 'boom')";
            execute(shop.store(), check);
        }
        let ended =
            shop.run(&["runs", "submit", "--from", "runs.jsonl", "-o", "json", "--allow-unknown"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let result: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((&result["accepted"], &result["through_line"]), (&json!(2_000), &json!(2_000)));
        assert!(ended.stderr.contains("all lines up to 2000 are submitted"), "{}", ended.stderr);
        assert_eq!(count(&shop), 2_000);
    }
}

// RUN-6
#[test]
fn on_a_terminal_progress_is_shown_and_then_gone() {
    let shop = Shop::on_sqlite();
    shop.folder.write("runs.jsonl", "{\"queue\": \"work\"}\nnonsense\n");
    let program = env!("CARGO_BIN_EXE_redrive");
    let command = format!("{program} runs submit --from runs.jsonl --store sqlite:store.db");
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(shop.folder.path());
    let output = script.stdin(Stdio::null()).output().expect("util-linux has `script`");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{shown}");
    assert!(shown.contains("1 accepted, 1 refused"), "{shown}");
    assert!(shown.contains("line 2: not a JSON object"), "{shown}");
    let (_, after) = shown.rsplit_once("\u{1b}[2K").expect("the bar is cleared");
    assert!(after.starts_with("accepted "), "{after}");
}

// OPS-4
#[test]
fn a_wrong_submit_is_refused_and_makes_no_store() {
    #[track_caller]
    fn check(arguments: &[&str], code: i32, part: &str) {
        let folder = Folder::new();
        let complaint = folder.run(&[&["runs", "submit"], arguments].concat()).failed(code);
        assert!(complaint.contains(part), "{part:?} is not in {complaint}");
        assert!(!folder.path().join("redrive.db").exists());
    }
    let long = "x".repeat(513);
    check(&[], 2, "--queue <NAME>");
    check(&["--queue", ""], 2, "queue is not allowed: it must not be empty");
    check(&["--queue", &long], 2, "513 bytes, 512 are allowed");
    check(&["--queue", "q", "--category", &long], 2, "category");
    check(&["--queue", "q", "--idempotency-key", ""], 2, "idempotency_key");
    for payload in ["{", "", "nope", "{} {}", "-"] {
        check(&["--queue", "q", "--payload", payload], 2, "--payload <JSON>");
    }
    for time in [
        "now",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-13-01T00:00:00Z",
        "0",
        "",
        "10000-01-01T00:00:00Z",
        "-000001-01-01T00:00:00Z",
        "2026-01-01T00:00:00[Europe/Berlin]",
    ] {
        for flag in ["--submitted-at", "--not-before"] {
            let flag = format!("{flag}={time}");
            check(&["--queue", "q", &flag], 2, "write an instant such as");
        }
    }
    for flag in
        ["--payload=1", "--category=c", "--idempotency-key=k", "--not-before=2026-01-01T00:00:00Z"]
    {
        check(&["--from", "x.jsonl", flag], 2, "cannot be used with");
    }
    check(&["--from", "missing.jsonl"], 1, "cannot read missing.jsonl");
    check(&["--from", "."], 1, "the path is a folder");
}
