//! Whatever a program does instead of answering, each of its calls has an outcome.

use std::time::Duration;

use proptest::prelude::*;
use redrive_core::{Cause, Class, Code, Failure};
use redrive_engine::Outcome;
use serde_json::json;

use crate::{
    alone::alone,
    exec_output::{FLAT_BYTES, peak_bytes},
    program::{LONG, SHORT, TRACEBACK, answered, failure, gone, in_short, reaped, soon},
    streaming::Streaming,
};

const GRACE: Duration = Duration::from_millis(200);

#[track_caller]
fn check(failure: &Failure, code: Code, parts: &[&str]) {
    let message = failure.message().as_str();
    assert_eq!(in_short(failure), (Class::Retryable, false, code), "{message}");
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

// HANDLERS-3, HANDLERS-5
#[tokio::test]
async fn a_line_that_is_no_reply_fails_its_call_and_ends_the_program() {
    let cases = [
        ("echo done", "the line is not JSON"),
        ("echo '[1]'", "the line is not a JSON object"),
        (r#"echo '{"level": "info"}'"#, "the line has none of ok, skip and error"),
        (r#"echo '{"id": 7, "ok": 1}'"#, "the id of the line is not a string"),
        (r#"echo '{"ok": 1'"#, "the line is not JSON"),
        (r#"printf '{"ok": "\377"}\n'"#, "the line is not JSON"),
        (r#"printf '\000{"ok": 1}\n'"#, "the line is not JSON"),
        ("head -c 2000000 /dev/zero | tr '\\0' x", "the line is longer than 1048576 bytes"),
        ("head -c 2000000 /dev/zero; echo", "the line is longer than 1048576 bytes"),
    ];
    for (garbage, problem) in cases {
        let script = format!("echo $$ > leader; echo log >&2\nwhile next; do {garbage}; done");
        let program = Streaming::sh(&script);
        let failure = failure(program.ask(1).await);
        check(&failure, Code::name("bad_reply"), &[problem, "stderr: log"]);
        reaped(program.pid("leader")).await;
    }
}

// HANDLERS-3
#[tokio::test]
async fn what_is_printed_before_any_call_is_read_is_not_taken_for_a_reply() {
    // Whatever the order of events, the greeting is not the answer.
    let program = Streaming::sh("echo Loading the model; while next; do say '\"ok\":1'; done");
    let failure = failure(program.ask(1).await);
    check(&failure, Code::name("bad_reply"), &["Loading the model"]);
}

// HANDLERS-3
#[tokio::test]
async fn a_second_reply_to_a_call_ends_the_program_and_answers_no_other_call() {
    let script = r#"
        echo $$ >> starts
        while next; do say "\"ok\":\"$id\""; say "\"ok\":\"$id\""; done
    "#;
    for in_flight in [1, 4] {
        let program = Streaming::with(script, |spec| spec.in_flight = in_flight);
        for n in 1..=3 {
            // A call may be hit by the end of a program that was wrong before; none gets the answer
            // of another.
            match program.ask(n).await {
                Outcome::Answered { value, .. } => {
                    assert_eq!(value.unwrap(), json!(format!("run:{n}#3")));
                }
                Outcome::Failed(failure) => {
                    assert_eq!(failure.class(), Class::Retryable, "{failure:?}");
                }
                outcome => panic!("{outcome:?}"),
            }
        }
        assert!(program.count("starts") > 1, "it was not ended");
    }
}

// HANDLERS-3
#[tokio::test]
async fn with_several_in_flight_a_reply_must_say_which_call_it_answers() {
    let cases = [
        ("echo '{\"ok\": 1}'", "the line has no id"),
        ("id=other; say '\"ok\":1'", "the line answers no current call"),
        ("say '\"ok\":1'; say '\"ok\":1'", "the line answers no current call"),
        ("echo hello", "the line is not JSON"),
    ];
    for (wrong, problem) in cases {
        let script = format!("next; next; next; {wrong}; while next; do :; done");
        let program = Streaming::with(&script, |spec| spec.in_flight = 3);
        let calls: Vec<_> = (1..=3).map(|n| program.begin(n, LONG)).collect();
        let mut reset = 0;
        for (_stopper, call) in calls {
            match soon(call).await.unwrap() {
                Outcome::Failed(failure) => {
                    check(
                        &failure,
                        Code::name("stream_reset"),
                        &["the program was terminated", problem],
                    );
                    reset += 1;
                }
                outcome => assert_eq!(outcome, answered(json!(1))),
            }
        }
        assert_eq!(reset, if wrong.starts_with("say") { 2 } else { 3 }, "{wrong}");
    }
}

// HANDLERS-3
#[tokio::test]
async fn a_line_that_names_its_call_puts_the_blame_on_it() {
    let program =
        Streaming::with("next; next; say '\"level\":\"info\"'; while next; do :; done", |spec| {
            spec.in_flight = 2
        });
    let calls = [program.begin(1, LONG), program.begin(2, LONG)];
    let mut codes = Vec::new();
    for (_stopper, call) in calls {
        let failure = failure(soon(call).await.unwrap());
        codes.push(failure.code().to_string());
        let shown = failure.message().as_str().contains("level");
        assert_eq!(shown, *failure.code() == Code::name("bad_reply"), "{failure}");
    }
    codes.sort();
    assert_eq!(codes, ["bad_reply", "stream_reset"]);
}

// HANDLERS-3, CLS-4
#[tokio::test]
async fn a_call_past_its_time_limit_fails_its_neighbours_and_ends_the_program() {
    let script = r#"
        echo $$ > leader
        while next; do printf '\036%s working on %s\n' "$id" "$id" >&2; echo "$id" >> had; done
    "#;
    let program = Streaming::with(script, |spec| spec.in_flight = 2);
    let (_stopper, patient) = program.begin(1, LONG);
    program.until("had", 1).await;
    let late = failure(program.ask_within(2, SHORT).await);
    let what = "the program took longer than its time limit of 700ms";
    check(&late, Code::name("timeout"), &[what, "stderr: working on run:2#3"]);
    assert_eq!(late.cause(), Cause::Timeout);
    let reset = failure(soon(patient).await.unwrap());
    let why = "the program was terminated: another call took longer than its time limit of 700ms";
    check(&reset, Code::name("stream_reset"), &[why, "stderr: working on run:1#3"]);
    assert!(!late.message().as_str().contains("run:1#3"), "{late}");
    reaped(program.pid("leader")).await;
}

// HANDLERS-3
#[tokio::test]
async fn a_program_that_never_reads_ignores_term_and_forks_is_gone_at_the_time_limit() {
    let script = r#"
        trap '' TERM
        echo $$ > leader
        sh -c 'trap "" TERM; while :; do sleep 1; done' &
        echo $! > child
        while :; do sleep 1; done
    "#;
    let program = Streaming::with(script, |spec| spec.grace = GRACE);
    let failure = failure(program.ask_within(1, SHORT).await);
    check(&failure, Code::name("timeout"), &[]);
    reaped(program.pid("leader")).await;
    gone(program.pid("child")).await;
}

// HANDLERS-3
#[tokio::test]
async fn a_reply_that_comes_after_the_time_limit_is_too_late() {
    let script = r#"
        trap 'say "\"ok\":1"; exit 0' TERM
        while next; do while :; do sleep 0.01; done; done
    "#;
    let program = Streaming::sh(script);
    check(&failure(program.ask_within(1, SHORT).await), Code::name("timeout"), &[]);
}

// HANDLERS-3, CLS-4
#[tokio::test]
async fn a_program_that_dies_fails_its_call_by_its_exit_code() {
    let failed = |code: u8, class| (class, false, Code::Number(code.into()));
    let cases = [
        ("next; exit 1", failed(1, Class::Retryable)),
        ("next; exit 75", failed(75, Class::Retryable)),
        ("next; exit 65", failed(65, Class::Final)),
        ("exit 3", failed(3, Class::Retryable)),
        ("next; printf '{\"ok\": 1'; exit 4", failed(4, Class::Retryable)),
        ("next; kill -KILL $$", (Class::Retryable, false, Code::name("signal_9"))),
        ("next; exit 0", (Class::Retryable, false, Code::name("stream_ended"))),
        ("exit 0", (Class::Retryable, false, Code::name("stream_ended"))),
    ];
    for (script, expected) in cases {
        let failure = failure(Streaming::sh(&format!("echo oops >&2; {script}")).ask(1).await);
        assert_eq!(in_short(&failure), expected, "{script}");
        let message = failure.message().as_str();
        assert!(message.starts_with("the program ended"), "{script}: {message}");
        assert!(message.ends_with("stderr: oops"), "{script}: {message}");
    }
}

// HANDLERS-3
#[tokio::test]
async fn a_program_that_closes_its_output_and_stays_is_ended() {
    let script = "echo $$ > leader; next; exec >&-; sleep 100";
    let program = Streaming::with(script, |spec| spec.grace = GRACE);
    let failure = failure(program.ask(1).await);
    check(&failure, Code::name("stream_ended"), &["closed its pipes and did not exit"]);
    reaped(program.pid("leader")).await;
}

// HANDLERS-3
#[tokio::test]
async fn an_exit_code_cannot_be_the_end_of_several_calls() {
    let program = Streaming::with("next; next; exit 65", |spec| spec.in_flight = 2);
    let calls = [program.begin(1, LONG), program.begin(2, LONG)];
    for (_stopper, call) in calls {
        let failure = failure(soon(call).await.unwrap());
        check(&failure, Code::name("stream_reset"), &["the program ended with exit status: 65"]);
    }
}

// HANDLERS-3
#[tokio::test]
async fn a_reply_given_before_death_counts() {
    let program = Streaming::sh("next; say '\"ok\":1'; exit 3");
    assert_eq!(program.ask(1).await, answered(json!(1)));
}

// HANDLERS-3; cpython PR 14490
#[tokio::test]
async fn a_child_that_holds_the_pipes_does_not_hang_the_calls_and_is_gone_after_them() {
    let program = Streaming::sh("next; sleep 100 & echo $! > child; exit 3");
    let failure = failure(program.ask(1).await);
    assert_eq!(*failure.code(), Code::Number(3));
    gone(program.pid("child")).await;
}

// HANDLERS-3
#[test]
fn a_flood_on_stderr_costs_no_memory_and_its_end_is_kept() {
    alone("stream_faults::a_flood_on_stderr_costs_no_memory_and_its_end_is_kept", async || {
        let script = r#"
            next
            yes error | head -c 100000000 >&2
            say '"ok":1'
            next
            yes error | head -c 100000000 >&2
            echo last >&2
            exit 3
        "#;
        let program = Streaming::sh(script);
        let before = peak_bytes();
        assert_eq!(program.ask(1).await, answered(json!(1)));
        let failure = failure(program.ask(2).await);
        let growth = peak_bytes() - before;
        assert!(growth < FLAT_BYTES, "it grew by {growth} bytes");
        let message = failure.message().as_str();
        assert!(message.ends_with("last") && message.len() < 5_000, "{message}");
    });
}

// HANDLERS-3, LOG-2
#[tokio::test]
async fn a_call_shows_what_was_logged_for_it_and_nothing_of_the_call_before() {
    let script = r#"
        next; echo first >&2; say '"ok":1'
        next; echo second >&2; say '"error":{"message":"no"}'
        next; echo third >&2; exit 3
    "#;
    let program = Streaming::sh(script);
    assert_eq!(program.ask(1).await, answered(json!(1)));
    assert_eq!(failure(program.ask(2).await).message().as_str(), "no\nstderr: second");
    let died = failure(program.ask(3).await);
    let expected = "the program ended with exit status: 3\nstderr: third";
    assert_eq!(died.message().as_str(), expected);
}

// HANDLERS-3, LOG-2
#[tokio::test]
async fn with_several_in_flight_a_marked_line_is_shown_with_its_call_only() {
    let script = r#"
        echo starting >&2
        next; one=$id; next; two=$id
        printf '\036%s for %s\n' "$one" "$one" "$two" "$two" >&2
        echo whose >&2
        exit 1
    "#;
    let program = Streaming::with(script, |spec| spec.in_flight = 2);
    let calls = [program.begin(1, LONG), program.begin(2, LONG)];
    for (n, (_stopper, call)) in (1..).zip(calls) {
        let failure = failure(soon(call).await.unwrap());
        check(&failure, Code::Number(1), &[&format!("for run:{n}#3")]);
        let message = failure.message().as_str();
        assert!(!message.contains("whose"), "{message}");
        assert!(!message.contains(&format!("run:{}#3", 3 - n)), "{message}");
    }
}

// HANDLERS-3, LOG-2
#[tokio::test]
async fn with_several_in_flight_lines_without_a_mark_are_left_to_the_log_of_the_worker() {
    let program = Streaming::with("next; next; echo whose >&2; exit 1", |spec| spec.in_flight = 2);
    let calls = [program.begin(1, LONG), program.begin(2, LONG)];
    for (_stopper, call) in calls {
        let message = failure(soon(call).await.unwrap()).message().to_string();
        assert!(message.contains("exit status: 1; the lines of its stderr are"), "{message}");
        assert!(!message.contains("whose"), "{message}");
    }
}

// HANDLERS-3
#[tokio::test]
async fn what_a_program_says_before_it_reads_a_call_is_shown_with_each_of_them() {
    let program = Streaming::with("echo no model >&2; exit 1", |spec| spec.in_flight = 2);
    let calls = [program.begin(1, LONG), program.begin(2, LONG)];
    for (_stopper, call) in calls {
        check(&failure(soon(call).await.unwrap()), Code::Number(1), &["stderr: no model"]);
    }
}

// HANDLERS-3, CLS-4
#[tokio::test]
async fn the_error_of_a_traceback_comes_first() {
    let program = Streaming::sh(&format!("next; {TRACEBACK}; exit 1"));
    let message = failure(program.ask(1).await).message().to_string();
    let head = "ValueError: bad day (work.py:12 in fetch); the program ended with exit status: 1\n\
                stderr: Traceback";
    assert!(message.starts_with(head), "{message}");
}

// CLS-4
#[tokio::test]
async fn a_program_that_cannot_be_started_is_a_failed_attempt() {
    let program = Streaming::with("", |spec| spec.argv = vec!["./missing".to_owned()]);
    let failure = failure(program.ask(1).await);
    check(&failure, Code::name("spawn"), &["missing: the file does not exist"]);
    assert_eq!(failure.cause(), Cause::Spawn);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    // HANDLERS-3, HANDLERS-5
    #[test]
    fn any_bytes_lead_to_an_outcome(
        chunks in prop::collection::vec(bytes(), 1..4),
        in_flight in 1_usize..4,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let program = Streaming::with(
                "next; cat answer; while next; do say '\"ok\":1'; done",
                |spec| (spec.in_flight, spec.grace) = (in_flight, GRACE),
            );
            std::fs::write(program.path("answer"), chunks.concat()).unwrap();
            let calls: Vec<_> =
                (1..=3).map(|n| program.begin(n, Duration::from_millis(300))).collect();
            for (_stopper, call) in calls {
                let outcome = soon(call).await.unwrap();
                assert!(!matches!(outcome, Outcome::Stopped | Outcome::Skipped(_)), "{outcome:?}");
            }
        });
    }
}

/// Parts of replies, and anything else.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let parts: [&[u8]; 11] = [
        b"\n",
        b"{\"ok\": 1}\n",
        b"{\"id\": \"run:1#3\", \"ok\": 1}\n",
        b"{\"id\": \"run:2#3\"}\n",
        b"{\"error\": {\"class\": \"final\"}}\n",
        b"{\"ok\": ",
        b"\0",
        b"\xff\xfe",
        b"[[[[",
        b"\r\n",
        b"{\"skip\": \"x\"}\n",
    ];
    prop_oneof![
        4 => prop::sample::select(parts.to_vec()).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ]
}
