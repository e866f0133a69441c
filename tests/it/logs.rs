//! What the program logs, and how.

use serde_json::Value;

use crate::{folder::Folder, shop::Shop};

/// Drains a queue and reads the log as JSON.
#[track_caller]
fn log(shop: &Shop) -> Vec<Value> {
    let ended = shop.run(&["worker", "--drain", "-v", "--log-format", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The messages about a run, in order.
fn about(log: &[Value], run: i64) -> Vec<String> {
    let lines = log.iter().filter(|line| line["run"] == run);
    lines.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
}

// RUN-5
#[test]
fn logs_tell_first_attempts_from_retries_and_how_each_ended() {
    for shop in Shop::both() {
        let [flaky, down, fine, wrong] =
            ["flaky", "down", "fine", "wrong"].map(|category| shop.submit(category));
        let log = log(&shop);
        assert_eq!(
            about(&log, flaky),
            ["initial attempt", "failed; retry in 10ms", "retry 1 of 2", "succeeded after 1 retry"]
        );
        assert_eq!(
            about(&log, down),
            [
                "initial attempt",
                "failed; retry in 10ms",
                "retry 1 of 2",
                "failed; retry in 20ms",
                "retry 2 of 2",
                "given up: attempts_exhausted",
            ]
        );
        assert_eq!(about(&log, fine), ["initial attempt", "succeeded"]);
        assert_eq!(about(&log, wrong), ["initial attempt", "judged failed"]);
        let failed =
            log.iter().find(|line| line["run"] == down && line["level"] == "warn").unwrap();
        assert_eq!(failed["queue"], "work");
        assert_eq!(failed["attempt"], 3);
        assert_eq!(failed["error"], "the service is down");
        assert!(failed["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    }
}

// RUN-5
#[test]
fn a_success_after_a_manual_retry_is_no_success_after_retries() {
    for shop in Shop::both() {
        let handler = shop.folder.read("work.sh");
        let [id] = shop.drained(&["down"])[..] else { panic!() };
        shop.folder.write("work.sh", handler.replace("down:*)", "down:1)"));
        shop.run(&["runs", "retry", &id.to_string(), "-q"]).ok();
        assert_eq!(about(&log(&shop), id), ["initial attempt", "succeeded"]);
    }
}

// RUN-5
#[test]
fn a_text_log_has_a_line_for_each_event_with_its_fields() {
    let shop = Shop::on_sqlite();
    let id = shop.submit("bad");
    let ended = shop.run(&["worker", "--drain"]);
    let line = ended.stderr.lines().find(|line| line.contains("given up")).unwrap();
    let (time, rest) = line.split_once("  ").unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line}");
    let fields = "queue=work attempt=1 class=final code=65 error=\"cannot be read\"";
    assert_eq!(rest, format!("WARN given up: final run={id} {fields}"));
    assert!(!ended.stderr.contains('\u{1b}'), "a pipe is no terminal");
    let quiet = shop.run(&["worker", "--drain", "-q"]);
    assert_eq!(quiet.stderr, "");
}

// RUN-5
#[test]
fn control_characters_of_handlers_never_reach_a_terminal() {
    for shop in Shop::both() {
        let id = shop.submit("escape").to_string();
        shop.submit("escape");
        shop.submit("escape");
        let printed: Vec<String> = ["text", "json"]
            .map(|format| {
                shop.run(&["runs", "retry", &id, "-q"]);
                let ended = shop.run(&["worker", "--drain", "-v", "--log-format", format]);
                assert!(ended.stderr.contains("given up"), "{}", ended.stderr);
                ended.stderr
            })
            .into();
        let unit = format!("run:{id}");
        let told = [&["runs", "show", &id][..], &["runs", "list"], &["why", &unit]]
            .map(|command| shop.run(command).ok())
            .join("\n");
        let obeyed = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
        for text in printed.iter().chain([&told]) {
            assert!(!text.chars().any(|c| obeyed(&c)), "{text}");
        }
    }
}

// OPS-4
#[test]
fn an_unknown_log_format_is_refused() {
    let complaint = Folder::new().run(&["worker", "--log-format", "xml"]).failed(2);
    assert!(complaint.contains("text, json"), "{complaint}");
}
