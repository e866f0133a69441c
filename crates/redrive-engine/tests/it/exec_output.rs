//! Whatever a program prints, its outcome is known and costs little.

use redrive_core::{Code, MAX_MESSAGE_BYTES};
use serde_json::json;

use crate::{
    alone::alone,
    program::{Program, answered, run},
};

/// Much less than is printed.
pub(crate) const FLAT_BYTES: u64 = 16 * 1024 * 1024;

/// The most memory this process ever had.
pub(crate) fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

// HANDLERS-2
#[test]
fn a_program_that_prints_without_end_costs_no_memory() {
    alone("exec_output::a_program_that_prints_without_end_costs_no_memory", async || {
        let before = peak_bytes();
        let script = r#"
            yes | head -c 300000000
            yes error | head -c 100000000 >&2
            head -c 100000000 /dev/zero
            echo
            echo '{"ok": "done"}'
        "#;
        assert_eq!(Program::sh(script).handle(&run()).await, answered(json!("done")));
        let growth = peak_bytes() - before;
        assert!(growth < FLAT_BYTES, "it grew by {growth} bytes");
    });
}

// HANDLERS-2
#[tokio::test]
async fn a_reply_longer_than_the_limit_is_a_bad_one() {
    let print =
        |bytes| format!(r#"printf '{{"ok": "'; head -c {bytes} /dev/zero | tr '\0' x; echo '"}}'"#);
    let fits = Program::sh(&print(1_000_000)).handle(&run()).await;
    assert_eq!(fits, answered(json!("x".repeat(1_000_000))));
    let failure = Program::sh(&print(10_000_000)).failure().await;
    assert_eq!(*failure.code(), Code::name("bad_reply"));
    assert!(failure.message().as_str().contains("longer than"), "{}", failure.message());
}

// HANDLERS-2
#[tokio::test]
async fn a_huge_error_message_keeps_its_head_and_its_tail() {
    let script = "echo first >&2; yes | head -c 10000000 >&2; echo last >&2; exit 3";
    let failure = Program::sh(script).failure().await;
    let message = failure.message().as_str();
    assert!(message.len() <= MAX_MESSAGE_BYTES);
    assert!(message.starts_with("first\n") && message.ends_with("\nlast"), "{message}");
    assert!(message.contains("bytes truncated"), "{message}");
}

// HANDLERS-2
#[tokio::test]
async fn whatever_bytes_are_printed_the_outcome_is_recorded_and_safe_to_show() {
    let script = r#"
        printf '\377\376 \000 \033[31mred\007'
        printf 'bad \377\376 \000 \033[31mred\007\n' >&2
        exit 3
    "#;
    let failure = Program::sh(script).failure().await;
    assert_eq!(*failure.code(), Code::Number(3));
    let message = failure.message().as_str();
    assert_eq!(message, "bad \u{fffd}\u{fffd} \\u{0} \\u{1b}[31mred\\u{7}");
}

// HANDLERS-2
#[tokio::test]
async fn stderr_does_not_stand_in_for_the_reply() {
    let script = r#"echo '{"ok": 1}'; echo '{"error": {}}' >&2"#;
    assert_eq!(Program::sh(script).handle(&run()).await, answered(json!(1)));
}
