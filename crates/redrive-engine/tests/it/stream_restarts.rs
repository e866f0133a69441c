//! Programs come back, but not as a storm.

use std::time::{Duration, Instant};

use redrive_core::Code;
use redrive_engine::Outcome;
use serde_json::json;

use crate::{
    program::{LONG, answered, failure, soon},
    streaming::Streaming,
};

// HANDLERS-3
#[tokio::test]
async fn a_program_that_failed_is_started_again_after_a_while() {
    let script = r#"
        echo $$ >> starts
        while next; do
            if [ -e mended ]; then say '"ok":1'; else exit 3; fi
        done
    "#;
    let program = Streaming::sh(script);
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(*failure(program.ask(1).await).code(), Code::Number(3));
    }
    // 100 and 200 ms, each a quarter less at most.
    assert!(begun.elapsed() >= Duration::from_millis(225), "{:?}", begun.elapsed());
    std::fs::write(program.path("mended"), "").unwrap();
    assert_eq!(program.ask(1).await, answered(json!(1)));
    assert_eq!(program.count("starts"), 4);
}

// HANDLERS-3
#[tokio::test]
async fn a_wait_for_a_restart_does_not_use_up_the_time_limit() {
    let script = r#"
        echo $$ >> starts
        next || exit 0
        if [ -e mended ]; then say '"ok":1'; else exit 3; fi
    "#;
    let program = Streaming::sh(script);
    for _ in 0..4 {
        assert_eq!(*failure(program.ask(1).await).code(), Code::Number(3));
    }
    std::fs::write(program.path("mended"), "").unwrap();
    // The wait is 600 ms at least by now.
    assert_eq!(program.ask_within(1, Duration::from_millis(500)).await, answered(json!(1)));
}

// HANDLERS-3
#[tokio::test]
async fn a_program_that_exits_well_when_idle_is_started_again_at_once() {
    let script = r#"
        echo $$ >> starts
        for n in 1 2; do next || exit 0; say '"ok":1'; done
    "#;
    let program = Streaming::sh(script);
    let begun = Instant::now();
    for n in 1..=200 {
        assert_eq!(program.ask(n).await, answered(json!(1)), "call {n}");
    }
    assert_eq!(program.count("starts"), 100);
    // With the shortest wait after each it would be 7.4 seconds at least.
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
}

// HANDLERS-3
#[tokio::test]
async fn a_call_that_a_leaving_program_never_read_goes_to_the_next() {
    let script = r#"
        echo $$ >> starts
        for n in 1 2 3 4 5; do next || exit 0; say '"ok":1'; done
    "#;
    for in_flight in [1, 8] {
        let program = Streaming::with(script, |spec| {
            (spec.processes, spec.in_flight) = (2, in_flight);
        });
        let calls: Vec<_> = (1..=100).map(|n| program.begin(n, LONG)).collect();
        for (_stopper, call) in calls {
            assert_eq!(soon(call).await.unwrap(), answered(json!(1)));
        }
        assert!(program.count("starts") >= 20);
    }
}

// HANDLERS-3
#[tokio::test]
async fn calls_go_to_living_programs_while_one_waits_for_its_restart() {
    // The first of them dies with its first call.
    let script = r#"
        echo $$ >> starts
        if mkdir first 2>/dev/null; then next; echo "$id" >> had; exit 3; fi
        while next; do say '"ok":1'; done
    "#;
    let program = Streaming::with(script, |spec| spec.processes = 2);
    assert_eq!(*failure(program.ask(1).await).code(), Code::Number(3));
    for n in 2..=50 {
        assert_eq!(program.ask(n).await, answered(json!(1)));
    }
    assert_eq!(program.count("starts"), 2, "nothing waited for the first, and nothing hurried it");
}

// HANDLERS-3
#[tokio::test]
async fn a_hundred_that_crash_at_once_are_no_storm() {
    let script = "echo $$ >> starts; next; exit 3";
    let program = Streaming::with(script, |spec| spec.processes = 100);
    let begun = Instant::now();
    let calls: Vec<_> = (1..=300).map(|n| program.begin(n, LONG)).collect();
    for (_stopper, call) in calls {
        let outcome = soon(call).await.unwrap();
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    }
    // The first hundred start at once; after that there are 20 ms between two.
    let least = Duration::from_millis(20 * 199);
    assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
    assert_eq!(program.count("starts"), 300);
}
