//! Durations as people write them.

use std::time::Duration;

use proptest::prelude::*;
use redrive_core::{HumanDuration, MAX_DURATION};

use crate::arbitrary::{durations, texts};

const DAY: u64 = 86_400;

#[track_caller]
fn check(text: &str, expected: Duration) {
    let parsed: HumanDuration = text.parse().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(Duration::from(parsed), expected, "{text:?}");
}

#[track_caller]
fn check_refused(text: &str, why: &str) {
    let error = text.parse::<HumanDuration>().unwrap_err();
    assert_eq!(error.value, text);
    let shown = error.to_string();
    assert!(shown.contains(why), "{text:?} was refused with {shown:?}");
    assert!(shown.contains(&format!("{text:?}")), "{shown:?}");
}

#[test]
fn people_write_durations_in_many_ways() {
    check("250ms", Duration::from_millis(250));
    check("30s", Duration::from_secs(30));
    check("5m", Duration::from_secs(300));
    check("1h30m", Duration::from_secs(5_400));
    check("1h 30m", Duration::from_secs(5_400));
    check(" 2h ", Duration::from_secs(7_200));
    check("1.5h", Duration::from_secs(5_400));
    check("30d", Duration::from_secs(30 * DAY));
    check("2w", Duration::from_secs(14 * DAY));
    check("1d1h1m1s1ms1us1ns", Duration::new(90_061, 1_001_001));
    check("5 minutes", Duration::from_secs(300));
    check("0s", Duration::ZERO);
    check("36500d", MAX_DURATION);
}

// POL-5
#[test]
fn what_is_no_length_of_time_is_refused_with_what_is_allowed() {
    check_refused("90", "the unit is missing");
    check_refused("1e9", "the unit is missing");
    check_refused("-3", "the unit is missing");
    check_refused("-5m", "must not be negative");
    check_refused("5m ago", "must not be negative");
    check_refused("1mo", "no fixed length");
    check_refused("2 years", "no fixed length");
    check_refused("36501d", "36500d");
    check_refused("36500d1ns", "36500d");
    check_refused("99999999999999999999s", "such as 250ms");
    check_refused("", "such as 250ms");
    check_refused("soon", "such as 250ms");
    check_refused("5 parsecs", "such as 250ms");
    check_refused("٣s", "such as 250ms");
}

#[test]
fn a_huge_text_is_refused_in_a_short_message() {
    let error = "9".repeat(1_000_000).parse::<HumanDuration>().unwrap_err();
    assert!(error.to_string().len() < 300);
}

#[test]
fn durations_print_in_the_largest_units_that_are_exact() {
    let printed = |duration| HumanDuration::from(duration).to_string();
    assert_eq!(printed(Duration::ZERO), "0s");
    assert_eq!(printed(Duration::from_secs(60)), "1m");
    assert_eq!(printed(Duration::from_secs(90)), "1m30s");
    assert_eq!(printed(Duration::from_secs(6 * 3_600)), "6h");
    assert_eq!(printed(Duration::from_millis(1_500)), "1s500ms");
    assert_eq!(printed(Duration::from_secs(DAY)), "1d");
    assert_eq!(printed(MAX_DURATION), "36500d");
    assert_eq!(printed(Duration::from_nanos(1)), "1ns");
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back_exactly(duration in durations()) {
        let printed = HumanDuration::from(duration).to_string();
        prop_assert_eq!(printed.parse(), Ok(HumanDuration::from(duration)));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in texts(40)) {
        let _ = text.parse::<HumanDuration>();
    }

    #[test]
    fn a_text_that_looks_like_a_duration_is_read_or_refused(
        text in "[-+]?[0-9.,]{0,22} ?(ns|us|ms|s|m|h|d|w|mo|y|:|PT)?( ago)?",
    ) {
        if let Ok(parsed) = text.parse::<HumanDuration>() {
            prop_assert!(Duration::from(parsed) <= MAX_DURATION);
        }
    }
}
