//! However a program behaves, it ends, and nothing of it is left.

use std::time::Duration;

use redrive_core::{Cause, Class, Code, Failure};
use redrive_engine::{Handler, Outcome, Stopper};
use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::program::{
    LONG, Program, SHORT, answered, failure, gone, in_short, is_alive, reaped, run, run_with, soon,
};

const GRACE: Duration = Duration::from_millis(200);

/// Ignores TERM, and so does its child; both keep stdout and stderr open.
const STUBBORN: &str = r#"
    trap '' TERM
    echo $$ > leader
    sh -c 'while :; do sleep 1; done' &
    echo $! > child
    echo working >&2
    echo up > ready
    while :; do sleep 1; done
"#;

#[track_caller]
fn check_timeout(failure: &Failure) {
    assert_eq!(in_short(failure), (Class::Retryable, false, Code::name("timeout")));
    assert_eq!(failure.cause(), Cause::Timeout);
}

/// Handles a call by a program that writes to `ready`, and tells it to stop then.
async fn stopped_when_ready(program: &Program, tell: impl FnOnce(Stopper)) -> Outcome {
    program.make_fifo("ready");
    let (stopper, stop) = Stopper::new();
    let (handler, call) = (program.handler(), run());
    let stopping = async {
        program.hear("ready").await;
        tell(stopper);
    };
    soon(async { tokio::join!(handler.handle(&call, LONG, stop), stopping) }).await.0
}

// HANDLERS-2, CLS-4
#[tokio::test]
async fn a_program_past_its_time_limit_gets_term_and_may_end_well() {
    let script = r#"
        trap 'echo tidied > tidied; echo bye >&2; echo "{\"ok\": 1}"; exit 0' TERM
        echo $$ > leader
        while :; do sleep 0.01; done
    "#;
    let program = Program::sh(script);
    let failure = failure(program.handle_within(&run(), SHORT).await);
    check_timeout(&failure);
    let message = failure.message().as_str();
    let head = "the program took longer than its time limit of 700ms\nstderr: ";
    // The shell may say that its `sleep` was terminated before it says goodbye.
    assert!(message.starts_with(head) && message.ends_with("bye"), "{message}");
    assert!(program.path("tidied").exists());
    reaped(program.pid("leader")).await;
}

// HANDLERS-2
#[tokio::test]
async fn a_program_that_ignores_term_forks_and_keeps_stdout_open_is_gone_at_its_time_limit() {
    let program = Program::sh(STUBBORN).with_grace(GRACE);
    let failure = failure(program.handle_within(&run(), SHORT).await);
    check_timeout(&failure);
    assert!(failure.message().as_str().ends_with("stderr: working"), "{}", failure.message());
    reaped(program.pid("leader")).await;
    gone(program.pid("child")).await;
}

// HANDLERS-2
#[tokio::test]
async fn a_child_that_ignores_term_does_not_outlive_a_leader_that_obeys_it() {
    let script = r#"
        sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 1; done' &
        while :; do sleep 0.01; done
    "#;
    let program = Program::sh(script);
    check_timeout(&failure(program.handle_within(&run(), SHORT).await));
    gone(program.pid("child")).await;
}

// HANDLERS-2
#[tokio::test]
async fn a_program_that_is_stopped_by_a_signal_is_gone_at_its_time_limit() {
    let program = Program::sh("echo $$ > leader; kill -STOP $$").with_grace(GRACE);
    check_timeout(&failure(program.handle_within(&run(), SHORT).await));
    reaped(program.pid("leader")).await;
}

// HANDLERS-2
#[tokio::test]
async fn a_program_that_prints_without_end_still_has_a_time_limit() {
    let program = Program::sh("echo $$ > leader; yes & exec yes >&2").with_grace(GRACE);
    check_timeout(&failure(program.handle_within(&run(), SHORT).await));
    reaped(program.pid("leader")).await;
}

// HANDLERS-2, OPS-6
#[tokio::test]
async fn a_program_told_to_stop_gets_term_and_the_attempt_does_not_count() {
    let script = r#"
        trap 'echo tidied > tidied; exit 3' TERM
        echo $$ > leader
        echo up > ready
        while :; do sleep 0.01; done
    "#;
    let program = Program::sh(script);
    assert_eq!(stopped_when_ready(&program, |stopper| stopper.stop()).await, Outcome::Stopped);
    assert!(program.path("tidied").exists());
    reaped(program.pid("leader")).await;
}

// HANDLERS-2, OPS-6
#[tokio::test]
async fn only_an_explicit_reply_at_exit_0_counts_once_a_program_is_told_to_stop() {
    let cases = [
        (r#"echo '{"ok": "saved"}'; exit 0"#, answered(json!("saved"))),
        (r#"echo '{"ok": "saved"}'; exit 3"#, Outcome::Stopped),
        ("exit 0", Outcome::Stopped),
        ("echo saved; exit 0", Outcome::Stopped),
        (r#"echo '{"skip": "none"}'; exit 0"#, Outcome::Stopped),
        (r#"echo '{"error": {"message": "interrupted"}}'; exit 0"#, Outcome::Stopped),
    ];
    for (last_words, expected) in cases {
        let script = format!(
            "say() {{ {last_words}\n}}\ntrap say TERM\necho up > ready\nwhile :; do sleep 0.01; done"
        );
        let program = Program::sh(&script);
        assert_eq!(
            stopped_when_ready(&program, |stopper| stopper.stop()).await,
            expected,
            "{last_words}"
        );
    }
}

// HANDLERS-2, OPS-6
#[tokio::test]
async fn a_stubborn_program_told_to_stop_is_killed_after_its_grace() {
    let program = Program::sh(STUBBORN).with_grace(GRACE);
    assert_eq!(stopped_when_ready(&program, drop).await, Outcome::Stopped);
    reaped(program.pid("leader")).await;
    gone(program.pid("child")).await;
}

// HANDLERS-2, OPS-6
#[tokio::test]
async fn a_program_is_not_started_once_stopping_has_begun() {
    let program = Program::sh("touch started");
    let (stopper, stop) = Stopper::new();
    stopper.stop();
    assert_eq!(program.handler().handle(&run(), LONG, stop).await, Outcome::Stopped);
    assert!(!program.path("started").exists());
}

// HANDLERS-2
#[tokio::test]
async fn dropping_a_call_kills_the_whole_group_at_once() {
    let program = Program::sh(STUBBORN);
    program.make_fifo("ready");
    let (_stopper, stop) = Stopper::new();
    let handler = program.handler();
    let task = tokio::spawn(async move { handler.handle(&run(), LONG, stop).await });
    soon(program.hear("ready")).await;
    assert!(is_alive(program.pid("leader")) && is_alive(program.pid("child")));
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    reaped(program.pid("leader")).await;
    gone(program.pid("child")).await;
}

// HANDLERS-2; cpython PR 14490
#[tokio::test]
async fn a_grandchild_holding_the_pipes_does_not_hang_the_call_and_is_gone_after_it() {
    let large = run_with(json!({"payload": "x".repeat(1024 * 1024)}));
    let script = r#"sleep 100 & echo $! > child; echo '{"ok": 1}'"#;
    let program = Program::sh(script);
    assert_eq!(program.handle(&large).await, answered(json!(1)));
    gone(program.pid("child")).await;
    // The same when the program fails.
    let program = Program::sh("sleep 100 & echo $! > child; echo broken >&2; exit 3");
    assert_eq!(program.failure().await.message().as_str(), "broken");
    gone(program.pid("child")).await;
}

// HANDLERS-2
#[tokio::test]
async fn a_grandchild_without_pipes_is_gone_after_the_call_too() {
    let script = r#"sleep 100 <&- >/dev/null 2>&1 & echo $! > child; echo '{"ok": 1}'"#;
    let program = Program::sh(script);
    assert_eq!(program.handle(&run()).await, answered(json!(1)));
    gone(program.pid("child")).await;
}

// HANDLERS-2
#[tokio::test]
async fn a_child_that_still_writes_the_reply_is_heard() {
    let program = Program::sh(r#"(sleep 0.1; echo '{"ok": 1}') &"#);
    assert_eq!(program.handle(&run()).await, answered(json!(1)));
}

// HANDLERS-2
#[tokio::test]
async fn a_grandchild_that_left_the_group_is_left_alone_and_not_waited_for() {
    let script = r#"
        setsid sh -c 'echo $$ > daemon; echo up > ready; exec sleep 100' &
        read -r up < ready
        echo '{"ok": 1}'
    "#;
    let program = Program::sh(script);
    program.make_fifo("ready");
    assert_eq!(program.handle(&run()).await, answered(json!(1)));
    let daemon = program.pid("daemon");
    assert!(is_alive(daemon));
    kill_process(daemon, Signal::KILL).unwrap();
}

// HANDLERS-2
#[tokio::test]
async fn a_grandchild_that_left_the_group_does_not_hold_up_a_time_limit() {
    let script = r#"
        trap '' TERM
        setsid sh -c 'echo $$ > daemon; exec yes' &
        while :; do sleep 1; done
    "#;
    let program = Program::sh(script).with_grace(GRACE);
    check_timeout(&failure(program.handle_within(&run(), SHORT).await));
    // Nobody reads what it prints any more, and so it ends.
    gone(program.pid("daemon")).await;
}

// HANDLERS-2
#[tokio::test]
async fn a_program_that_ends_in_time_is_heard_however_long_its_pipes_stay_open() {
    let program = Program::sh(r#"sleep 100 & echo '{"ok": 1}'"#);
    assert_eq!(program.handle_within(&run(), SHORT).await, answered(json!(1)));
}
