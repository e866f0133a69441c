//! A program that stays running gets calls, and its replies are their outcomes.

use redrive_core::{Class, Code};
use redrive_engine::{Handler, InvalidProgram, Outcome, Stopper, StreamHandler, StreamSpec};
use redrive_store::Verdict;
use serde_json::{Value, json};

use crate::{
    program::{LONG, answered, failure, in_short, sample, soon},
    streaming::{Streaming, run},
};

/// Answers each call with how many it has had.
const COUNTING: &str = r#"
    echo $$ >> starts
    n=0
    while next; do n=$((n + 1)); echo "{\"ok\": $n}"; done
"#;

/// Echoes ids, and each second call before the first.
const SWAPPING: &str = r#"
    while next; do
        first=$id
        next || break
        say "\"ok\":\"$id\""
        id=$first
        say "\"ok\":\"$id\""
    done
"#;

// HANDLERS-3
#[tokio::test]
async fn one_program_answers_call_after_call() {
    let program = Streaming::sh(COUNTING);
    for n in 1..=5 {
        assert_eq!(program.ask(n).await, answered(json!(n)));
    }
    assert_eq!(program.count("starts"), 1);
}

// HANDLERS-3
#[tokio::test]
async fn a_call_is_one_line_that_begins_with_its_id() {
    let program = Streaming::sh(r#"while next; do echo "$line" > seen; say '"ok":1'; done"#);
    for call in [run(7), sample()] {
        let (_stopper, stop) = Stopper::new();
        soon(program.handler.handle(&call, LONG, stop)).await;
        let seen = program.read("seen");
        assert!(seen.starts_with(&format!("{{\"id\":\"{}\",\"kind\":", call.id())), "{seen}");
        assert_eq!(serde_json::from_str::<Value>(&seen).unwrap(), call.to_json());
    }
}

// HANDLERS-3, HANDLERS-5
#[tokio::test]
async fn every_form_of_reply_has_its_outcome() {
    let reply = |reply: &str| Streaming::sh(&format!("while next; do echo '{reply}'; done"));
    let judged = Outcome::Answered { value: Some(json!(1)), verdict: Some(Verdict::NeedsReview) };
    let cases = [
        (r#"{"ok": null}"#, answered(Value::Null)),
        (r#"  {"ok": {"a": [1]}}  "#, answered(json!({"a": [1]}))),
        (r#"{"ok": 1, "verdict": "needs_review"}"#, judged),
        (r#"{"id": null, "ok": 1}"#, answered(json!(1))),
    ];
    for (text, outcome) in cases {
        assert_eq!(reply(text).ask(1).await, outcome, "{text}");
    }
    let limited =
        |seconds| Class::RateLimited { retry_after: Some(std::time::Duration::from_secs(seconds)) };
    let errors = [
        (r#"{"error": {}}"#, (Class::Retryable, false, Code::name("error"))),
        (r#"{"error": {"class": "final"}}"#, (Class::Final, true, Code::name("error"))),
        (r#"{"error": {"code": 404}}"#, (Class::Final, false, Code::Number(404))),
        (r#"{"error": {"retry_after": 30}}"#, (limited(30), true, Code::name("error"))),
        (r#"{"error": {"retry_after": "2m"}}"#, (limited(120), true, Code::name("error"))),
    ];
    for (text, expected) in errors {
        assert_eq!(in_short(&failure(reply(text).ask(1).await)), expected, "{text}");
    }
}

// HANDLERS-5
#[tokio::test]
async fn skip_is_for_samples() {
    let program = Streaming::sh(r#"while next; do echo '{"skip": "empty"}'; done"#);
    let (_stopper, stop) = Stopper::new();
    let outcome = soon(program.handler.handle(&sample(), LONG, stop)).await;
    assert_eq!(outcome, Outcome::Skipped("empty".to_owned()));
    let refused = failure(program.ask(1).await);
    assert_eq!(*refused.code(), Code::name("bad_reply"));
    assert!(refused.message().as_str().contains("cannot be skipped"), "{}", refused.message());
}

// HANDLERS-5
#[tokio::test]
async fn a_reply_that_fits_nothing_fails_its_call_and_spares_the_program() {
    let script = r#"
        echo $$ >> starts
        next; echo '{"ok": 1, "verdict": "good"}'
        next; echo '{"ok": 1, "skip": "both"}'
        next; echo '{"ok": 3}'
    "#;
    let program = Streaming::sh(script);
    for problem in ["verdict must be", "exclude each other"] {
        let failure = failure(program.ask(1).await);
        assert_eq!(*failure.code(), Code::name("bad_reply"));
        assert!(failure.message().as_str().contains(problem), "{}", failure.message());
    }
    assert_eq!(program.ask(3).await, answered(json!(3)));
    assert_eq!(program.count("starts"), 1);
}

// HANDLERS-3
#[tokio::test]
async fn with_several_in_flight_replies_come_in_any_order() {
    let program = Streaming::with(SWAPPING, |spec| spec.in_flight = 4);
    let calls: Vec<_> = (1..=20).map(|n| program.begin(n, LONG)).collect();
    for (n, (_stopper, call)) in (1..=20).zip(calls) {
        let outcome = soon(call).await.unwrap();
        assert_eq!(outcome, answered(json!(run(n).id())));
    }
}

// HANDLERS-3
#[tokio::test]
async fn one_at_a_time_a_reply_may_echo_its_id_and_then_it_must_be_right() {
    let program = Streaming::sh(r#"while next; do say '"ok":1'; done"#);
    assert_eq!(program.ask(1).await, answered(json!(1)));
    let program = Streaming::sh(r#"while next; do id=other; say '"ok":1'; done"#);
    let failure = failure(program.ask(1).await);
    assert_eq!(*failure.code(), Code::name("bad_reply"));
    assert!(
        failure.message().as_str().contains("answers no current call"),
        "{}",
        failure.message()
    );
}

// HANDLERS-3
#[tokio::test]
async fn as_many_programs_run_as_calls_need_and_no_more_than_allowed() {
    let script = r#"
        echo $$ >> starts
        while next; do
            until [ -e open ]; do sleep 0.01; done
            echo '{"ok": 1}'
        done
    "#;
    let program = Streaming::with(script, |spec| spec.processes = 3);
    assert_eq!(program.handler.capacity(), Some(3));
    assert_eq!(program.count("starts"), 0, "nothing is started before it is needed");
    let calls: Vec<_> = (1..=5).map(|n| program.begin(n, LONG)).collect();
    program.until("starts", 3).await;
    std::fs::write(program.path("open"), "").unwrap();
    for (_stopper, call) in calls {
        assert_eq!(soon(call).await.unwrap(), answered(json!(1)));
    }
    assert_eq!(program.count("starts"), 3);
}

// HANDLERS-3
#[tokio::test]
async fn a_program_sees_the_named_variables_and_runs_in_its_folder() {
    let script =
        r#"while next; do env | sed 's/=.*//' > names; pwd -P > folder; say '"ok":1'; done"#;
    let program = Streaming::with(script, |spec| spec.env = vec!["CARGO_PKG_NAME".to_owned()]);
    program.ask(1).await;
    let names = program.read("names");
    let names: Vec<&str> = names.lines().collect();
    assert!(names.contains(&"CARGO_PKG_NAME") && names.contains(&"PATH"), "{names:?}");
    assert!(!names.contains(&"CARGO_PKG_VERSION"), "{names:?}");
    let folder = program.path("").canonicalize().unwrap();
    assert_eq!(program.read("folder").trim_end(), folder.to_str().unwrap());
}

// HANDLERS-3
#[tokio::test]
async fn a_large_call_and_a_large_reply_get_through() {
    let program = Streaming::sh(r#"while next; do printf '{"ok": %s}\n' "$line"; done"#);
    let mut call = run(1);
    call.details.insert("payload".to_owned(), "x".repeat(700 * 1024).into());
    let (_stopper, stop) = Stopper::new();
    let outcome = soon(program.handler.handle(&call, LONG, stop)).await;
    assert_eq!(outcome, answered(call.to_json()));
}

// HANDLERS-3
#[test]
fn what_can_never_run_is_refused_at_once() {
    let spec = |argv: &[&str]| {
        StreamSpec::new(argv.iter().map(|argument| (*argument).to_owned()).collect(), "/")
    };
    let refusal = |spec| StreamHandler::new(spec).err().expect("it must be refused");
    assert!(matches!(refusal(spec(&[])), InvalidProgram::NoProgram));
    assert!(matches!(refusal(spec(&["true", "a\0b"])), InvalidProgram::Nul(_)));
    let none = StreamSpec { processes: 0, ..spec(&["true"]) };
    assert!(matches!(refusal(none), InvalidProgram::Zero("processes")));
    let none = StreamSpec { in_flight: 0, ..spec(&["true"]) };
    assert!(matches!(refusal(none), InvalidProgram::Zero("in-flight")));
}
