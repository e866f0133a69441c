//! What can be submitted.

use jiff::Timestamp;
use redrive_store::{MAX_NAME_BYTES, MAX_PAYLOAD_BYTES, NewRun};
use serde_json::json;

#[track_caller]
fn check(field: &str, problem: &str, run: Result<NewRun, redrive_store::InvalidRun>) {
    let error = run.unwrap_err();
    assert_eq!(error.field, field);
    assert!(error.to_string().contains(problem), "{error}");
}

// RUN-6
#[test]
fn names_that_no_store_could_keep_are_refused_by_name() {
    let now = Timestamp::UNIX_EPOCH;
    let valid = || NewRun::new("q", &json!(null), now).unwrap();
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    check("queue", "must not be empty", NewRun::new("", &json!(null), now));
    check("queue", "NUL", NewRun::new("a\0b", &json!(null), now));
    check("queue", "512 are allowed", NewRun::new(&long, &json!(null), now));
    check("category", "NUL", valid().with_category("\0"));
    check("category", "513 bytes", valid().with_category(&long));
    check("idempotency_key", "must not be empty", valid().with_idempotency_key(""));
    check("idempotency_key", "NUL", valid().with_idempotency_key("k\0"));
    check("idempotency_key", "512 are allowed", valid().with_idempotency_key(&long));
    let huge = json!("x".repeat(MAX_PAYLOAD_BYTES));
    check("payload", "are allowed", NewRun::new("q", &huge, now));
}

#[test]
fn equal_content_is_equal_text_whatever_the_order_of_its_keys() {
    let now = Timestamp::UNIX_EPOCH;
    let one = serde_json::from_str(r#"{"b":1,"a":{"d":2,"c":3}}"#).unwrap();
    let two = serde_json::from_str(r#"{ "a": {"c":3, "d":2}, "b":1 }"#).unwrap();
    let (one, two) = (NewRun::new("q", &one, now).unwrap(), NewRun::new("q", &two, now).unwrap());
    assert_eq!(one.payload(), two.payload());
}
