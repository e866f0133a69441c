//! A line is a reply, no reply, or a bad one, and nothing else.

use std::time::Duration;

use proptest::prelude::*;
use redrive_core::{Class, Code, Failure};
use redrive_engine::reply::{MAX_REPLY_BYTES, Reply, ReportedError};
use redrive_store::Verdict;
use serde_json::{Value, json};

use crate::program::in_short;

fn ok(value: Value, verdict: Option<Verdict>) -> Reply {
    Reply::Ok { value, verdict }
}

fn error() -> ReportedError {
    ReportedError::default()
}

fn limited(seconds: u64) -> Class {
    Class::RateLimited { retry_after: Some(Duration::from_secs(seconds)) }
}

// HANDLERS-3, HANDLERS-5
#[test]
fn a_reply_is_ok_skip_or_error() {
    let message = Some("busy".to_owned());
    let wait = |seconds| Some(Duration::from_secs_f64(seconds));
    let cases = [
        (r#"{"ok": {"rows": 3}}"#, ok(json!({"rows": 3}), None)),
        (r#"{"ok": null}"#, ok(Value::Null, None)),
        (r#"  {"ok": 1, "id": "run:7#3", "more": []}  "#, ok(json!(1), None)),
        (r#"{"ok": 1, "verdict": "passed"}"#, ok(json!(1), Some(Verdict::Passed))),
        (r#"{"ok": 1, "verdict": "needs_review"}"#, ok(json!(1), Some(Verdict::NeedsReview))),
        (r#"{"verdict": "failed", "ok": false}"#, ok(json!(false), Some(Verdict::Failed))),
        (r#"{"skip": "empty"}"#, Reply::Skip("empty".to_owned())),
        (r#"{"skip": "\u0000\u001b[31m"}"#, Reply::Skip("\\u{0}\\u{1b}[31m".to_owned())),
        (r#"{"error": {}}"#, Reply::Error(error())),
        (
            r#"{"error": {"class": null, "code": null, "message": null, "retry_after": null}}"#,
            Reply::Error(error()),
        ),
        (
            r#"{"error": {"class": "final", "code": 404, "message": "busy", "more": 1}}"#,
            Reply::Error(ReportedError {
                class: Some(Class::Final),
                code: Some(Code::Number(404)),
                message,
                retry_after: None,
            }),
        ),
        (
            r#"{"error": {"class": "rate_limited", "retry_after": "1m30s"}}"#,
            Reply::Error(ReportedError {
                class: Some(limited(90)),
                retry_after: wait(90.0),
                ..error()
            }),
        ),
        (
            r#"{"error": {"code": "429", "retry_after": 0.5}}"#,
            Reply::Error(ReportedError {
                code: Some(Code::Number(429)),
                retry_after: wait(0.5),
                ..error()
            }),
        ),
    ];
    for (line, reply) in cases {
        assert_eq!(Reply::parse(line.as_bytes()), Ok(Some(reply)), "{line}");
    }
}

// HANDLERS-2
#[test]
fn what_programs_log_is_no_reply() {
    let lines: [&[u8]; 12] = [
        b"",
        b"done",
        b"42",
        b"null",
        b"[{\"ok\": 1}]",
        b"\"ok\"",
        b"{}",
        b"{\"level\": \"info\", \"message\": \"ok\"}",
        b"{\"ok\": 1",
        b"{\"ok\": 1} trailing",
        b"{ok: 1}",
        b"\xff\xfe\x00",
    ];
    for line in lines {
        assert_eq!(Reply::parse(line), Ok(None), "{}", String::from_utf8_lossy(line));
    }
}

// HANDLERS-5
#[test]
fn what_means_to_be_a_reply_and_does_not_fit_is_a_bad_one() {
    let deep = format!("{{\"ok\": {}{}}}", "[".repeat(500), "]".repeat(500));
    let cases: [(&[u8], &str); 24] = [
        (br#"{"ok": 1, "skip": "why"}"#, "exclude each other"),
        (br#"{"ok": 1, "error": null}"#, "exclude each other"),
        (br#"{"ok": 1, "skip": "why", "error": {}}"#, "exclude each other"),
        (br#"{"verdict": "failed"}"#, "beside ok"),
        (br#"{"skip": "why", "verdict": "passed"}"#, "beside ok"),
        (br#"{"error": {}, "verdict": "failed"}"#, "beside ok"),
        (br#"{"ok": 1, "verdict": "Failed"}"#, "verdict must be"),
        (br#"{"ok": 1, "verdict": null}"#, "verdict must be"),
        (br#"{"skip": true}"#, "skip must be a string"),
        (br#"{"error": "boom"}"#, "error must be an object"),
        (br#"{"error": null}"#, "error must be an object"),
        (br#"{"error": {"class": "fatal"}}"#, "class must be"),
        (br#"{"error": {"class": 1}}"#, "class must be"),
        (br#"{"error": {"code": -1}}"#, "neither a status nor an exit code"),
        (br#"{"error": {"code": 1.5}}"#, "neither a status nor an exit code"),
        (br#"{"error": {"code": 4294967296}}"#, "neither a status nor an exit code"),
        (br#"{"error": {"code": "two words"}}"#, "is not a code"),
        (br#"{"error": {"code": []}}"#, "code must be"),
        (br#"{"error": {"message": 3}}"#, "message must be a string"),
        (br#"{"error": {"retry_after": -3}}"#, "retry_after must be"),
        (br#"{"error": {"retry_after": 1e300}}"#, "retry_after must be"),
        (br#"{"error": {"retry_after": "30"}}"#, "retry_after must be"),
        (b"{\"ok\": \"\xff\"}", "cannot be parsed"),
        (deep.as_bytes(), "cannot be parsed"),
    ];
    for (line, problem) in cases {
        let line_text = String::from_utf8_lossy(line);
        let bad = Reply::parse(line).expect_err(&line_text).to_string();
        assert!(bad.contains(problem), "{line_text}: {bad}");
        let excerpt: String = line_text.chars().take(20).collect();
        assert!(bad.contains(&excerpt), "it shows what it is about: {bad}");
    }
}

// HANDLERS-5
#[test]
fn a_line_longer_than_the_limit_is_a_bad_reply() {
    let line = format!("{{\"ok\": \"{}\"}}", "x".repeat(MAX_REPLY_BYTES - 10));
    assert_eq!(line.len(), MAX_REPLY_BYTES);
    assert!(Reply::parse(line.as_bytes()).unwrap().is_some());
    assert!(Reply::parse(format!("{line} ").as_bytes()).is_err());
}

// HANDLERS-5
#[test]
fn only_samples_are_skipped_and_samples_need_a_reply() {
    let skip = || Some(Reply::Skip("empty".to_owned()));
    let fine = || Some(ok(json!(1), None));
    assert_eq!(Reply::allowed_for("sample", skip()), Ok(skip()));
    assert_eq!(Reply::allowed_for("sample", fine()), Ok(fine()));
    assert!(Reply::allowed_for("sample", None).is_err());
    for kind in ["run", "partition", "item"] {
        assert!(Reply::allowed_for(kind, skip()).is_err(), "{kind}");
        assert_eq!(Reply::allowed_for(kind, fine()), Ok(fine()), "{kind}");
        assert_eq!(Reply::allowed_for(kind, None), Ok(None), "{kind}");
    }
}

// CLS-4, CLS-5
#[test]
fn a_reported_error_says_what_it_says_and_the_exit_code_the_rest() {
    let name = |name| Code::name(name);
    let cases = [
        // Nothing is stated: the exit code alone.
        (json!({}), 65, (Class::Final, false, Code::Number(65))),
        (json!({}), 3, (Class::Retryable, false, Code::Number(3))),
        // A stated class stands, whatever the codes say.
        (json!({"class": "retryable"}), 65, (Class::Retryable, true, Code::Number(65))),
        (json!({"class": "final", "code": 503}), 75, (Class::Final, true, Code::Number(503))),
        (
            json!({"class": "retryable", "retry_after": 9}),
            1,
            (Class::Retryable, true, Code::Number(1)),
        ),
        (json!({"class": "final", "retry_after": 9}), 1, (Class::Final, true, Code::Number(1))),
        // A code without a class is a code, not a statement.
        (json!({"code": 404}), 75, (Class::Final, false, Code::Number(404))),
        (json!({"code": "dns"}), 65, (Class::Retryable, false, name("dns"))),
        (
            json!({"code": 429}),
            1,
            (Class::RateLimited { retry_after: None }, false, Code::Number(429)),
        ),
        // A hint asks for patience, unless trying again cannot help.
        (json!({"code": 429, "retry_after": 30}), 1, (limited(30), true, Code::Number(429))),
        (json!({"retry_after": "30s"}), 75, (limited(30), true, Code::Number(75))),
        (json!({"retry_after": 30}), 65, (Class::Final, false, Code::Number(65))),
        (
            json!({"class": "rate_limited", "retry_after": 30}),
            65,
            (limited(30), true, Code::Number(65)),
        ),
    ];
    for (error, exit, expected) in cases {
        let line = json!({"error": error}).to_string();
        let Ok(Some(Reply::Error(reported))) = Reply::parse(line.as_bytes()) else {
            panic!("{line} is an error");
        };
        let failure = reported.failure(|message| Failure::exit(exit, message), "broken");
        assert_eq!(in_short(&failure), expected, "{line} with exit code {exit}");
        assert_eq!(failure.message().as_str(), "broken");
    }
}

/// Any JSON, with a liking for the words of the protocol.
fn json_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        proptest::sample::select(vec!["final", "rate_limited", "passed", "30s", "-3", "timeout"])
            .prop_map(str::to_owned),
        any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    let words = ["ok", "skip", "error", "verdict", "class", "code", "message", "retry_after", "id"];
    let key = proptest::sample::select(words.to_vec());
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..4).prop_map(|map| map
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    // HANDLERS-5
    #[test]
    fn any_bytes_are_read_without_a_panic(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        _ = Reply::parse(&line);
    }

    // HANDLERS-5
    #[test]
    fn an_object_is_no_reply_only_if_it_has_none_of_the_words(value in json_value()) {
        let parsed = Reply::parse(value.to_string().as_bytes());
        let has = |key| value.get(key).is_some();
        let count = ["ok", "skip", "error"].into_iter().filter(|key| has(*key)).count();
        match parsed {
            Ok(None) => prop_assert!(count == 0 && !has("verdict")),
            Ok(Some(Reply::Ok { value: answer, .. })) => {
                prop_assert_eq!((count, value.get("ok")), (1, Some(&answer)));
            }
            Ok(Some(Reply::Skip(_))) => prop_assert!(count == 1 && value["skip"].is_string()),
            Ok(Some(Reply::Error(error))) => {
                prop_assert!(count == 1 && value["error"].is_object());
                // Whatever was reported, it is a failure with a message that can be stored.
                let failure = error.failure(|m| Failure::exit(1, m), "\0");
                prop_assert_eq!(failure.message().as_str(), "\\u{0}");
            }
            Err(_) => prop_assert!(count > 0 || has("verdict")),
        }
    }

    // HANDLERS-3
    #[test]
    fn any_answer_comes_back_as_it_was(value in json_value()) {
        let line = json!({"ok": value}).to_string();
        prop_assert_eq!(Reply::parse(line.as_bytes()), Ok(Some(ok(value, None))));
    }
}
