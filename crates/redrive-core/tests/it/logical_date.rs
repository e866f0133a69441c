//! Days and ranges of days.

use redrive_core::{DateRange, LogicalDate};

fn day(text: &str) -> LogicalDate {
    text.parse().unwrap()
}

fn days(since: &str, until: &str) -> u64 {
    DateRange::new(day(since), day(until)).unwrap().days()
}

// PAR-9
#[test]
fn a_range_counts_its_days_with_both_ends() {
    assert_eq!(days("2026-03-01", "2026-03-01"), 1);
    assert_eq!(days("2023-02-28", "2023-03-01"), 2);
    assert_eq!(days("2024-02-28", "2024-03-01"), 3, "a leap year");
    assert_eq!(days("1900-01-01", "1900-12-31"), 365, "no leap year");
    assert_eq!(days("2000-01-01", "2000-12-31"), 366);
    assert_eq!(days("2025-12-31", "2026-01-01"), 2);
    assert_eq!(days("0001-01-01", "9999-12-31"), 3_652_059);
}

// PAR-9
#[test]
fn a_range_has_each_of_its_days_once_and_in_order() {
    for (since, until) in [("2024-02-27", "2024-03-02"), ("9999-12-30", "9999-12-31")] {
        let range = DateRange::new(day(since), day(until)).unwrap();
        let all: Vec<LogicalDate> = range.iter().collect();
        assert_eq!(all.len() as u64, range.days());
        assert!(all.windows(2).all(|pair| pair[0].days_until(pair[1]) == 1));
        assert_eq!((all.first(), all.last()), (Some(&day(since)), Some(&day(until))));
    }
    assert_eq!(LogicalDate::MAX.next(), None);
}

// PAR-9
#[test]
fn a_range_that_ends_before_it_begins_is_refused() {
    let error = DateRange::new(day("2026-03-02"), day("2026-03-01")).unwrap_err();
    assert_eq!(error.field, "since");
    assert!(error.to_string().contains("after 2026-03-01"), "{error}");
}

#[test]
fn years_have_four_digits() {
    for text in ["10000-01-01", "0000-12-31", "-001-01-01", "99999-01-1", "1e3-01-01", ""] {
        let error = text.parse::<LogicalDate>().unwrap_err();
        assert_eq!(error.field, "logical_date", "{text:?}");
        assert!(error.to_string().contains("9999"), "{error}");
    }
    assert_eq!(day("0001-01-01"), LogicalDate::MIN);
    assert_eq!(day("9999-12-31"), LogicalDate::MAX);
    assert!(LogicalDate::MIN.to_string() < LogicalDate::MAX.to_string(), "they sort as text");
}
