//! However a handler is told to stop, its programs end, and nothing of them is left.

use std::time::Duration;

use redrive_core::Code;
use redrive_engine::{Handler, Outcome};
use serde_json::json;

use crate::{
    program::{LONG, SHORT, answered, failure, gone, is_alive, reaped, soon},
    streaming::Streaming,
};

const GRACE: Duration = Duration::from_millis(200);

/// Has calls and never answers, and will not go by being asked; nor will its child.
const STUBBORN: &str = r#"
    trap '' TERM
    echo $$ > leader
    sh -c 'trap "" TERM; while :; do sleep 1; done' &
    echo $! > child
    while next; do echo "$id" >> had; done
    while :; do sleep 1; done
"#;

// HANDLERS-3, OPS-6
#[tokio::test]
async fn a_call_told_to_stop_ends_the_program_that_has_no_other() {
    let script = r#"
        trap 'echo tidied > tidied; exit 0' TERM
        echo $$ > leader
        while next; do echo "$id" >> had; while :; do sleep 0.01; done; done
    "#;
    let program = Streaming::sh(script);
    let (stopper, call) = program.begin(1, LONG);
    program.until("had", 1).await;
    stopper.stop();
    assert_eq!(soon(call).await.unwrap(), Outcome::Stopped);
    assert!(program.path("tidied").exists());
    reaped(program.pid("leader")).await;
}

// HANDLERS-3, OPS-6
#[tokio::test]
async fn an_answer_given_after_the_word_to_stop_counts() {
    let cases = [
        (r#"say '"ok":"saved"'"#, answered(json!("saved"))),
        (r#"say '"error":{"message":"interrupted"}'"#, Outcome::Stopped),
        ("echo bye", Outcome::Stopped),
    ];
    for (last_words, expected) in cases {
        let script = format!(
            "last() {{ {last_words}; exit 0; }}\ntrap last TERM\n\
             while next; do echo $id >> had; while :; do sleep 0.01; done; done"
        );
        let program = Streaming::sh(&script);
        let (stopper, call) = program.begin(1, LONG);
        program.until("had", 1).await;
        stopper.stop();
        assert_eq!(soon(call).await.unwrap(), expected, "{last_words}");
    }
}

// HANDLERS-3, OPS-6
#[tokio::test]
async fn a_stubborn_program_told_to_stop_is_killed_after_its_grace() {
    let program = Streaming::with(STUBBORN, |spec| spec.grace = GRACE);
    let (stopper, call) = program.begin(1, LONG);
    program.until("had", 1).await;
    stopper.stop();
    assert_eq!(soon(call).await.unwrap(), Outcome::Stopped);
    reaped(program.pid("leader")).await;
    gone(program.pid("child")).await;
}

// HANDLERS-3
#[tokio::test]
async fn a_stopped_call_does_not_disturb_its_neighbours_and_its_late_reply_is_ignored() {
    // The first call is answered late, the second after it.
    let script = r#"
        echo $$ >> starts
        next; first=$id; echo "$id" >> had
        next; second=$id; echo "$id" >> had
        read -r word < gate
        id=$first; say '"ok":"late"'
        id=$second; say '"ok":"in time"'
        while next; do say '"ok":"next"'; done
    "#;
    let program = Streaming::with(script, |spec| spec.in_flight = 2);
    let gate = program.path("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let (stopper, unwanted) = program.begin(1, LONG);
    program.until("had", 1).await;
    let (_stopper, neighbour) = program.begin(2, LONG);
    program.until("had", 2).await;
    stopper.stop();
    assert_eq!(soon(unwanted).await.unwrap(), Outcome::Stopped);
    tokio::task::spawn_blocking(move || std::fs::write(gate, "go\n")).await.unwrap().unwrap();
    assert_eq!(soon(neighbour).await.unwrap(), answered(json!("in time")));
    assert_eq!(program.ask(3).await, answered(json!("next")));
    assert_eq!(program.count("starts"), 1);
}

// HANDLERS-3
#[tokio::test]
async fn the_same_call_again_does_not_get_the_late_reply_to_the_first() {
    let script = r#"
        next; echo "$id" >> had
        read -r word < gate
        say '"ok":"late"'
        next; say '"ok":"second"'
    "#;
    let program = Streaming::with(script, |spec| spec.in_flight = 4);
    let gate = program.path("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let (stopper, unwanted) = program.begin(1, LONG);
    program.until("had", 1).await;
    stopper.stop();
    assert_eq!(soon(unwanted).await.unwrap(), Outcome::Stopped);
    let (_stopper, again) = program.begin(1, LONG);
    tokio::task::spawn_blocking(move || std::fs::write(gate, "go\n")).await.unwrap().unwrap();
    assert_eq!(soon(again).await.unwrap(), answered(json!("second")));
}

// HANDLERS-3
#[tokio::test]
async fn a_stopped_call_that_is_never_answered_gives_its_place_back_at_its_time_limit() {
    let program = Streaming::with(
        "echo $$ >> starts; next; echo $id >> had; while next; do say '\"ok\":1'; done",
        |spec| spec.in_flight = 2,
    );
    let (stopper, unwanted) = program.begin(1, SHORT);
    program.until("had", 1).await;
    stopper.stop();
    assert_eq!(soon(unwanted).await.unwrap(), Outcome::Stopped);
    let leader = program.pid("starts");
    assert_eq!(program.ask(2).await, answered(json!(1)));
    reaped(leader).await;
}

// HANDLERS-3
#[tokio::test]
async fn a_dropped_call_ends_the_program_that_has_no_other_without_grace() {
    for told_before in [false, true] {
        let program = Streaming::with(STUBBORN, |spec| spec.grace = LONG * 10);
        let (stopper, call) = program.begin(1, LONG);
        program.until("had", 1).await;
        if told_before {
            stopper.stop();
            tokio::task::yield_now().await;
        }
        call.abort();
        assert!(soon(call).await.unwrap_err().is_cancelled());
        soon(reaped(program.pid("leader"))).await;
        gone(program.pid("child")).await;
    }
}

// HANDLERS-3, OPS-6
#[tokio::test]
async fn released_programs_see_the_end_of_their_input_and_finish() {
    let script = r#"
        echo $$ >> starts
        while next; do say '"ok":1'; done
        echo done >> finished
    "#;
    let program = Streaming::with(script, |spec| spec.processes = 2);
    assert_eq!(program.ask(1).await, answered(json!(1)));
    soon(program.handler.release()).await;
    assert_eq!(program.count("finished"), 1, "it was waited for");
    reaped(program.pid("starts")).await;
    assert_eq!(program.ask(2).await, answered(json!(1)), "a later call starts anew");
    assert_eq!(program.count("starts"), 2);
}

// HANDLERS-3, OPS-6
#[tokio::test]
async fn a_released_program_that_does_not_go_gets_term_and_then_kill() {
    let obedient = r#"
        trap 'echo tidied > tidied; exit 0' TERM
        echo $$ > leader
        next; say '"ok":1'
        while :; do sleep 0.01; done
    "#;
    let program = Streaming::with(obedient, |spec| spec.grace = GRACE);
    assert_eq!(program.ask(1).await, answered(json!(1)));
    soon(program.handler.release()).await;
    reaped(program.pid("leader")).await;

    let stubborn = STUBBORN.replace("echo \"$id\" >> had", "say '\"ok\":1'");
    let program = Streaming::with(&stubborn, |spec| spec.grace = GRACE);
    assert_eq!(program.ask(1).await, answered(json!(1)));
    soon(program.handler.release()).await;
    reaped(program.pid("leader")).await;
    gone(program.pid("child")).await;
}

// HANDLERS-3
#[tokio::test]
async fn dropping_the_handler_kills_every_program_with_what_it_started() {
    let stubborn = STUBBORN.replace("echo \"$id\" >> had", "say '\"ok\":1'");
    let mut program = Streaming::sh(&stubborn);
    assert_eq!(program.ask(1).await, answered(json!(1)));
    let (leader, child) = (program.pid("leader"), program.pid("child"));
    assert!(is_alive(leader) && is_alive(child));
    program.handler = Streaming::sh("").handler;
    reaped(leader).await;
    gone(child).await;
}

// HANDLERS-3, OPS-6
#[tokio::test]
async fn a_call_that_waits_for_a_program_hears_the_word_to_stop() {
    let program = Streaming::sh("echo $$ >> starts; while next; do :; done");
    let (_stopper, first) = program.begin(1, LONG);
    program.until("starts", 1).await;
    let (stopper, second) = program.begin(2, LONG);
    stopper.stop();
    assert_eq!(soon(second).await.unwrap(), Outcome::Stopped);
    assert!(!first.is_finished());
    first.abort();
}

// HANDLERS-3
#[tokio::test]
async fn a_program_that_closes_its_input_is_let_go() {
    let program = Streaming::with("next; exec <&-; sleep 100", |spec| spec.grace = GRACE);
    let (_stopper, first) = program.begin(1, SHORT);
    let late = failure(soon(first).await.unwrap());
    assert_eq!(*late.code(), Code::name("timeout"));
}
