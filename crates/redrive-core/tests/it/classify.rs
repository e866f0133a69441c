//! From what was observed to a class.

use std::time::Duration;

use redrive_core::{
    Cause, Class, Code, Failure, class_of_exit, class_of_http, class_of_name, named,
};

const HINT: Option<Duration> = Some(Duration::from_secs(30));

// CLS-1
#[test]
fn classes_are_stored_under_their_three_names() {
    assert_eq!(Class::Final.name(), "final");
    assert_eq!(Class::Retryable.name(), "retryable");
    for retry_after in [None, HINT] {
        let class = Class::RateLimited { retry_after };
        assert_eq!(class.name(), "rate_limited");
        assert_eq!(class.hint(), retry_after);
    }
    assert_eq!(Class::Final.hint(), None);
    assert_eq!(Class::Retryable.hint(), None);
}

// CLS-2
#[test]
fn every_http_status_has_the_class_of_the_table() {
    for status in 300..=599 {
        let expected = match status {
            429 => "rate_limited",
            408 | 425 | 500 | 502 | 503 | 504 => "retryable",
            300..=499 | 501 | 505 => "final",
            _ => "retryable",
        };
        let class = class_of_http(status, None);
        assert_eq!(class.name(), expected, "{status}");
        assert_eq!(class.hint(), None, "{status}");
    }
}

// CLS-2
#[test]
fn a_hint_makes_a_rate_limit_of_every_4xx_and_5xx() {
    for status in 300..=599 {
        let class = class_of_http(status, HINT);
        assert_eq!(class.hint(), HINT.filter(|_| status >= 400), "{status}");
        let other_class = class.name() != class_of_http(status, None).name();
        assert_eq!(other_class, status >= 400 && status != 429, "{status}");
    }
}

// POL-7
#[test]
fn a_wait_of_less_than_a_second_is_no_hint() {
    let short = Some(Duration::from_millis(999));
    assert_eq!(class_of_http(503, short), Class::Retryable);
    assert_eq!(class_of_http(403, Some(Duration::ZERO)), Class::Final);
    assert_eq!(class_of_http(429, short).name(), "rate_limited");
    assert_eq!(class_of_http(429, short).hint(), None);
}

// CLS-2
#[test]
fn a_broken_connection_is_retryable_under_its_own_code_and_a_bad_certificate_is_final() {
    let names = [
        (named::CONNECTION_REFUSED, Class::Retryable),
        (named::CONNECTION_RESET, Class::Retryable),
        (named::CONNECTION_TIMEOUT, Class::Retryable),
        (named::DNS, Class::Retryable),
        (named::CUT_BODY, Class::Retryable),
        (named::CONNECTION_FAILED, Class::Retryable),
        (named::TLS, Class::Retryable),
        (named::BAD_RESPONSE, Class::Retryable),
        (named::BODY_TOO_LARGE, Class::Retryable),
        (named::CERTIFICATE, Class::Final),
        (named::PRIVATE_ADDRESS, Class::Final),
        (named::BAD_TEMPLATE, Class::Final),
    ];
    for (name, class) in names {
        assert_eq!(class_of_name(name), class, "{name}");
        let failure = Failure::named(name, Cause::Handler, "");
        assert_eq!(failure.class(), class, "{name}");
        assert_eq!(failure.code(), &Code::name(name));
        let others = names.iter().filter(|(other, _)| *other == name).count();
        assert_eq!(others, 1, "{name} is its own code");
    }
}

// CLS-4
#[test]
fn every_exit_code_has_the_class_of_the_table() {
    for code in 1..=u8::MAX {
        let expected = match code {
            64 | 65 | 66 | 77 | 78 => Class::Final,
            _ => Class::Retryable,
        };
        assert_eq!(class_of_exit(code), expected, "{code}");
        let failure = Failure::exit(code, "");
        assert_eq!(failure.class(), expected, "{code}");
        assert_eq!(failure.code(), &Code::Number(code.into()));
    }
}

// CLS-4
#[test]
fn a_command_that_ended_some_other_way_is_retryable_and_says_how() {
    let cases = [
        (Failure::signal(9, ""), "signal_9", Cause::Handler),
        (Failure::timeout(""), "timeout", Cause::Timeout),
        (Failure::spawn(""), "spawn", Cause::Spawn),
        (Failure::lost_worker(""), "lost_worker", Cause::LostWorker),
    ];
    for (failure, code, cause) in cases {
        assert_eq!(failure.class(), Class::Retryable, "{code}");
        assert_eq!(failure.code().to_string(), code);
        assert_eq!(failure.cause(), cause, "{code}");
        assert!(!failure.is_stated(), "{code}");
    }
}

#[track_caller]
fn check_reported(class: Option<Class>, code: &str, expected: Class) {
    let failure = Failure::reported(class, code.parse().unwrap(), "");
    assert_eq!(failure.class(), expected, "{class:?} {code}");
    assert_eq!(failure.is_stated(), class.is_some(), "{class:?} {code}");
}

// CLS-4, CLS-5
#[test]
fn a_handler_can_state_the_class_and_else_its_code_tells() {
    let limited = Class::RateLimited { retry_after: HINT };
    check_reported(Some(Class::Retryable), "404", Class::Retryable);
    check_reported(Some(Class::Final), "503", Class::Final);
    check_reported(Some(limited), "timeout", limited);
    check_reported(None, "404", Class::Final);
    check_reported(None, "503", Class::Retryable);
    check_reported(None, "429", Class::RateLimited { retry_after: None });
    check_reported(None, "certificate", Class::Final);
    check_reported(None, "quota", Class::Retryable);
    check_reported(None, "4294967295", Class::Retryable);
}

#[test]
fn every_cause_is_found_by_the_name_it_is_stored_under() {
    for cause in Cause::ALL {
        assert_eq!(Cause::from_name(cause.name()), Some(cause));
    }
    assert_eq!(Cause::from_name("Handler"), None);
}
