//! The Retry-After header.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use redrive_core::parse_retry_after;

use crate::arbitrary::{texts, timestamps};

/// Half a minute before the date of the examples in RFC 9110.
fn now() -> Timestamp {
    "1994-11-06T08:49:07Z".parse().unwrap()
}

#[track_caller]
fn check(value: &str, seconds: u64) {
    let expected = Some(Duration::from_secs(seconds));
    assert_eq!(parse_retry_after(value, None, now()), expected, "{value:?}");
}

#[track_caller]
fn check_no_hint(value: &str) {
    assert_eq!(parse_retry_after(value, None, now()), None, "{value:?}");
}

// CLS-3
#[test]
fn whole_seconds_are_a_hint() {
    check("1", 1);
    check("120", 120);
    check("007", 7);
    check("86400", 86_400);
    check("3153600000", 3_153_600_000);
    check(" 120", 120);
    check("120\t ", 120);
}

/// A policy's `max_hint` is at most a hundred years, so a longer hint means the same.
// CLS-3
#[test]
fn whole_seconds_of_any_size_are_a_hint() {
    for value in ["3153600001", "9999999999", "12345678901", "18446744073709551616"] {
        check(value, 3_153_600_000);
    }
    check(&"9".repeat(1000), 3_153_600_000);
}

// CLS-3
#[test]
fn a_date_is_a_hint_in_all_three_forms() {
    check("Sun, 06 Nov 1994 08:49:37 GMT", 30);
    check("Sunday, 06-Nov-94 08:49:37 GMT", 30);
    check("Sun Nov  6 08:49:37 1994", 30);
    check("  Sun, 06 Nov 1994 08:49:37 GMT\t", 30);
    check("Mon, 07 Nov 1994 08:49:07 GMT", 86_400);
    check("Thu, 29 Feb 1996 08:49:07 GMT", 480 * 86_400);
    check("Fri, 31 Dec 9999 23:59:59 GMT", 3_153_600_000);
}

// CLS-3
#[test]
fn a_wait_of_less_than_a_second_and_a_past_date_are_no_hint() {
    check_no_hint("0");
    check_no_hint("000");
    check_no_hint("Sun, 06 Nov 1994 08:49:07 GMT");
    check_no_hint("Sun, 06 Nov 1994 08:49:06 GMT");
    check_no_hint("Sunday, 06-Nov-94 08:48:00 GMT");
    check_no_hint("Sat Nov  5 08:49:37 1994");
    check_no_hint("Thu, 01 Jan 1970 00:00:00 GMT");
}

// CLS-3
#[test]
fn a_date_is_compared_with_the_date_of_the_response() {
    let check = |date: &str, seconds: Option<u64>| {
        let hint = parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", Some(date), now());
        assert_eq!(hint, seconds.map(Duration::from_secs), "{date:?}");
    };
    check("Sun, 06 Nov 1994 08:49:27 GMT", Some(10));
    check("Sun, 06 Nov 1994 07:49:37 GMT", Some(3600));
    check("Sun, 06 Nov 1994 08:49:37 GMT", None);
    check("Sun, 06 Nov 1994 09:00:00 GMT", None);
    check("yesterday", Some(30));
    let hint = parse_retry_after("120", Some("Sun, 06 Nov 1994 09:00:00 GMT"), now());
    assert_eq!(hint, Some(Duration::from_secs(120)));
}

// CLS-3
#[test]
fn anything_that_is_no_whole_number_is_no_hint() {
    let values = [
        "",
        " ",
        "\t",
        "-3",
        "-0",
        "+5",
        "1.5",
        "1,5",
        "1e9",
        "1_000",
        "1 000",
        "0x10",
        "inf",
        "NaN",
        "infinity",
        "120s",
        "2m",
        "PT2M",
        "soon",
        "٣",
        "１２",
        "²",
        "120\n",
        "\u{a0}120",
        "120, 60",
        "\"120\"",
        "12\0",
    ];
    for value in values {
        check_no_hint(value);
    }
}

// CLS-3
#[test]
fn a_date_that_does_not_exist_or_is_written_otherwise_is_no_hint() {
    let values = [
        "Wed, 29 Feb 2023 00:00:00 GMT",
        "Tue, 31 Apr 2024 00:00:00 GMT",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Monday, 06-Nov-94 08:49:37 GMT",
        "Mon Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 08:49:37 gmt",
        "sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Sun, 06 Nov 1994 08:49:60 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "06 Nov 1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "1994-11-06T08:49:37Z",
        "1994-11-06",
        "Sun, 06 Nov 1994 08:49:37 GMT, 120",
    ];
    for value in values {
        check_no_hint(value);
    }
}

proptest! {
    // CLS-3
    #[test]
    fn digits_are_so_many_seconds(seconds in 1_u64..=3_153_600_000, now in timestamps()) {
        let hint = parse_retry_after(&seconds.to_string(), None, now);
        prop_assert_eq!(hint, Some(Duration::from_secs(seconds)));
    }

    // CLS-3
    #[test]
    fn a_date_and_now_give_what_lies_between(
        at in 0_i64..=253_402_207_200, now in 0_i64..=253_402_207_200,
    ) {
        let date = Timestamp::from_second(at).unwrap();
        let value = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let hint = parse_retry_after(&value, None, Timestamp::from_second(now).unwrap());
        let between = u64::try_from(at - now).ok().filter(|seconds| *seconds > 0);
        let between = between.map(|seconds| Duration::from_secs(seconds.min(3_153_600_000)));
        prop_assert_eq!(hint, between, "{}", value);
    }

    // CLS-3
    #[test]
    fn whatever_a_header_holds_a_hint_is_from_a_second_to_a_hundred_years(
        value in prop_oneof![
            texts(32),
            "[ \t]{0,2}[-+]?[0-9]{0,40}([.,][0-9]{1,3})?([eE][-+]?[0-9]{1,4})?[ \t]{0,2}",
            "(Sun|Mon), [0-9]{2} (Nov|Feb) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
            "(Sunday|Monday), [0-9]{2}-(Nov|Feb)-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
            "(Sun|Mon) (Nov|Feb) [ 0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} [0-9]{4}",
        ],
        now in timestamps(),
    ) {
        let allowed = Duration::from_secs(1)..=Duration::from_secs(3_153_600_000);
        let hint = parse_retry_after(&value, None, now);
        prop_assert!(hint.is_none_or(|hint| allowed.contains(&hint)), "{:?}: {:?}", value, hint);
    }
}
