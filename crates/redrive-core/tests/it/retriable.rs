//! Which failures a policy retries.

use jiff::Timestamp;
use proptest::prelude::*;
use redrive_core::{
    Class, Code, Decision, Failure, GiveUpReason, History, Policy, PolicySpec, Retriable, decide,
};

use crate::arbitrary::{failures, jitter_of_run, retriables};

/// Why a fresh unit is given up, or `None` if it is tried again.
fn refusal(retriable: &Retriable, failure: &Failure) -> Option<GiveUpReason> {
    let spec = PolicySpec { retriable: retriable.clone(), ..PolicySpec::default() };
    let policy = Policy::new(spec).unwrap();
    let now = Timestamp::UNIX_EPOCH;
    match decide(&policy, &History::default(), failure, now, jitter_of_run(7)) {
        Decision::RetryAt { .. } => None,
        Decision::GiveUp { reason } => Some(reason),
    }
}

#[track_caller]
fn check(retriable: &Retriable, failure: &Failure, expected: Option<GiveUpReason>) {
    assert_eq!(refusal(retriable, failure), expected, "{retriable:?} {failure:?}");
}

fn list(codes: &[&str]) -> Retriable {
    Retriable::Codes(codes.iter().map(|code| code.parse().unwrap()).collect())
}

fn stated(class: Class, code: &str) -> Failure {
    Failure::reported(Some(class), code.parse().unwrap(), "")
}

const FINAL: Option<GiveUpReason> = Some(GiveUpReason::Final);
const NOT_RETRIABLE: Option<GiveUpReason> = Some(GiveUpReason::NotRetriable);
const RETRIED: Option<GiveUpReason> = None;

// CLS-5
#[test]
fn a_stated_final_binds_whatever_the_policy_retries() {
    let failure = stated(Class::Final, "503");
    for retriable in [Retriable::ByClass, Retriable::All, Retriable::None, list(&["503"])] {
        check(&retriable, &failure, FINAL);
    }
}

// CLS-5
#[test]
fn by_class_follows_a_stated_class_and_else_the_code() {
    let by_class = Retriable::ByClass;
    let limited = Class::RateLimited { retry_after: None };
    check(&by_class, &stated(Class::Retryable, "404"), RETRIED);
    check(&by_class, &stated(limited, "404"), RETRIED);
    check(&by_class, &Failure::http(404, None, ""), FINAL);
    check(&by_class, &Failure::http(503, None, ""), RETRIED);
    check(&by_class, &Failure::http(429, None, ""), RETRIED);
    check(&by_class, &Failure::exit(65, ""), FINAL);
    check(&by_class, &Failure::exit(75, ""), RETRIED);
    check(&by_class, &Failure::exit(1, ""), RETRIED);
    check(&by_class, &Failure::signal(9, ""), RETRIED);
    check(&by_class, &Failure::timeout(""), RETRIED);
    check(&by_class, &Failure::spawn(""), RETRIED);
}

// CLS-5
#[test]
fn exit_codes_and_statuses_are_codes_and_not_statements() {
    for failure in [Failure::http(404, None, ""), Failure::exit(65, "")] {
        assert_eq!(failure.class(), Class::Final);
        check(&Retriable::All, &failure, RETRIED);
        check(&Retriable::Codes(vec![failure.code().clone()]), &failure, RETRIED);
    }
}

// CLS-5
#[test]
fn a_list_decides_before_the_class_does() {
    check(&list(&["404"]), &Failure::http(404, None, ""), RETRIED);
    check(&list(&["404"]), &Failure::http(503, None, ""), NOT_RETRIABLE);
    check(&list(&["404"]), &stated(Class::Retryable, "503"), NOT_RETRIABLE);
    check(&list(&[]), &Failure::http(503, None, ""), NOT_RETRIABLE);
    let limited = Class::RateLimited { retry_after: Some(std::time::Duration::from_secs(1)) };
    check(&list(&["404"]), &stated(limited, "429"), NOT_RETRIABLE);
    check(&Retriable::None, &stated(limited, "429"), NOT_RETRIABLE);
    check(&Retriable::None, &Failure::timeout(""), NOT_RETRIABLE);
}

// CLS-5
#[test]
fn a_list_matches_numbers_with_numbers_and_names_with_names() {
    let codes = list(&["429", "75", "timeout", "signal_9"]);
    check(&codes, &Failure::http(429, None, ""), RETRIED);
    check(&codes, &Failure::exit(75, ""), RETRIED);
    check(&codes, &Failure::timeout(""), RETRIED);
    check(&codes, &Failure::signal(9, ""), RETRIED);
    check(&codes, &stated(Class::Retryable, "0429"), RETRIED);
    check(&codes, &Failure::exit(1, ""), NOT_RETRIABLE);
    check(&codes, &Failure::spawn(""), NOT_RETRIABLE);
    check(&codes, &Failure::signal(15, ""), NOT_RETRIABLE);
    check(&codes, &stated(Class::Retryable, "Timeout"), NOT_RETRIABLE);
    check(&codes, &stated(Class::Retryable, "+429"), NOT_RETRIABLE);
}

// CLS-5
#[test]
fn a_code_in_digits_is_the_number_it_spells() {
    assert_eq!("429".parse(), Ok(Code::Number(429)));
    assert_eq!("4294967295".parse(), Ok(Code::Number(u32::MAX)));
    assert_eq!("timeout".parse(), Ok(Code::name("timeout")));
    let beyond = "4294967296";
    assert_eq!(beyond.parse(), Ok(Code::Name(beyond.to_owned())));
}

#[test]
fn a_text_that_cannot_be_a_code_is_refused() {
    let long = "x".repeat(65);
    for text in ["", " ", "time out", "é", "\x1b[31m", "a\0", &long] {
        let error = text.parse::<Code>().unwrap_err();
        let shown = error.to_string();
        assert!(shown.starts_with(&format!("{text:?} is not a code")), "{shown}");
    }
}

proptest! {
    // CLS-5
    #[test]
    fn the_rules_of_the_list_hold_in_their_order(
        retriable in retriables(), failure in failures(),
    ) {
        let is_final = failure.class() == Class::Final;
        let expected = if is_final && failure.is_stated() {
            FINAL
        } else {
            match &retriable {
                Retriable::None => NOT_RETRIABLE,
                Retriable::Codes(codes) if codes.contains(failure.code()) => RETRIED,
                Retriable::Codes(_) => NOT_RETRIABLE,
                Retriable::All => RETRIED,
                Retriable::ByClass => if is_final { FINAL } else { RETRIED },
            }
        };
        prop_assert_eq!(refusal(&retriable, &failure), expected);
    }

    #[test]
    fn a_code_is_read_back_as_it_was_written(text in "[!-~]{1,64}") {
        let code: Code = text.parse().unwrap();
        prop_assert_eq!(code.to_string().parse(), Ok(code));
    }
}
