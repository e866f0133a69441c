//! Units and how they are written.

use jiff::civil::{Date, date};
use proptest::prelude::*;
use redrive_core::{
    InvalidUnit, ItemId, LogicalDate, MAX_KEY_BYTES, PartitionKey, RunId, SampleId, Unit,
};

use crate::arbitrary::texts;

fn partition(source: &str, customer: &str, query: &str) -> Result<PartitionKey, InvalidUnit> {
    PartitionKey::new(source, customer, query, date(2026, 2, 28).try_into().unwrap())
}

#[track_caller]
fn check(unit: Unit, written: &str) {
    assert_eq!(unit.to_string(), written);
    assert_eq!(written.parse(), Ok(unit));
}

// POL-4
#[test]
fn every_kind_of_unit_is_written_with_its_parts_percent_encoded() {
    let ads = |customer| Unit::Partition(partition("ads", customer, "daily").unwrap());
    check(ads("acme"), "partition:ads/acme/daily/2026-02-28");
    check(ads("12/34"), "partition:ads/12%2F34/daily/2026-02-28");
    check(ads("../.."), "partition:ads/..%2F../daily/2026-02-28");
    check(ads("50%"), "partition:ads/50%25/daily/2026-02-28");
    check(ads("a:b c"), "partition:ads/a%3Ab%20c/daily/2026-02-28");
    check(ads("Zoë"), "partition:ads/Zo%C3%AB/daily/2026-02-28");
    check(ads("a-b._~"), "partition:ads/a-b._~/daily/2026-02-28");
    check(ads("\x1b[2J"), "partition:ads/%1B%5B2J/daily/2026-02-28");
    check(Unit::Run(RunId(7)), "run:7");
    check(Unit::Run(RunId(i64::MAX)), "run:9223372036854775807");
    check(Unit::Item(ItemId(7)), "item:7");
    let stage = "clean/up".to_owned();
    check(Unit::Sample { id: SampleId(7), stage }, "sample:7/clean%2Fup");
}

#[track_caller]
fn check_refused(text: &str, field: &str, problem: &str) {
    let error = text.parse::<Unit>().unwrap_err();
    assert_eq!(error.field, field, "{text:?}");
    let shown = error.to_string();
    assert!(shown.contains(problem), "{text:?} was refused with {shown:?}");
}

#[test]
fn what_is_no_unit_is_refused_by_the_part_that_is_wrong() {
    let long = "x".repeat(MAX_KEY_BYTES + 1);
    for text in ["", "7", "runs:7", "Run:7", " run:7", "partition"] {
        check_refused(text, if text == "partition" { text } else { "unit" }, "write ");
    }
    for id in ["", "seven", "0", "-1", "+7", "07", "7 ", "1.0", "٧", "9223372036854775808"] {
        check_refused(&format!("run:{id}"), "run", "whole number from 1");
        check_refused(&format!("item:{id}"), "item", "whole number from 1");
        check_refused(&format!("sample:{id}/s"), "sample", "whole number from 1");
    }
    check_refused("sample:7", "sample", "sample:ID/STAGE");
    check_refused("sample:7/", "stage", "must not be empty");
    check_refused("partition:a/b/c", "partition", "SOURCE/CUSTOMER/QUERY/DATE");
    check_refused("partition:a/b/c/d/2026-02-28", "partition", "percent-encoded");
    check_refused("partition:/b/c/2026-02-28", "source", "must not be empty");
    check_refused("partition:a/%00/c/2026-02-28", "customer_id", "NUL");
    check_refused("partition:a/b/%ff/2026-02-28", "query_name", "not UTF-8");
    check_refused(&format!("partition:{long}/b/c/2026-02-28"), "source", "512 are allowed");
}

#[test]
fn only_a_calendar_day_is_a_logical_date() {
    for date in ["2026-02-28", "2024-02-29", "0001-01-01", "9999-12-31"] {
        let written = format!("partition:a/b/c/{date}");
        assert_eq!(written.parse::<Unit>().unwrap().to_string(), written);
    }
    for date in [
        "2023-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-01-32",
        "0000-12-31",
        "-001-01-01",
        "+010000-01-01",
        "20260228",
        "2026-2-28",
        "2026-02-28T00:00:00",
        "2026-02-28Z",
        "today",
    ] {
        check_refused(&format!("partition:a/b/c/{date}"), "logical_date", date);
    }
}

#[test]
fn a_key_that_cannot_be_one_is_refused_where_it_is_built() {
    let long = "é".repeat(MAX_KEY_BYTES / 2 + 1);
    assert_eq!(partition("", "b", "c").unwrap_err().field, "source");
    assert_eq!(partition("a", "b\0", "c").unwrap_err().field, "customer_id");
    let error = partition("a", "b", &long).unwrap_err();
    assert_eq!(error.field, "query_name");
    assert!(error.problem.contains("514 bytes"), "{error}");
    assert!(error.to_string().len() < 400, "a long key makes no long message");
    assert!(partition("a", "b", &long[2..]).is_ok());
    let before = LogicalDate::try_from(date(0, 12, 31)).unwrap_err();
    assert_eq!(before.field, "logical_date");
}

#[test]
fn composed_and_decomposed_letters_are_two_keys() {
    let (composed, decomposed) = ("\u{e9}", "e\u{301}");
    let written = |customer| partition("a", customer, "c").unwrap().to_string();
    assert_ne!(written(composed), written(decomposed));
}

fn key_parts() -> impl Strategy<Value = String> {
    let awkward = vec!["/", ".", "..", "%", "%2F", "%2f", "a/b", "a", "b", " ", "CON", "_"];
    prop_oneof![
        texts(20).prop_filter("a key part", |text| !text.is_empty() && !text.contains('\0')),
        prop::sample::select(awkward).prop_map(str::to_owned),
    ]
}

fn keys() -> impl Strategy<Value = PartitionKey> {
    let days = (1_i16..=9999, 1_i8..=12, 1_i8..=28);
    (key_parts(), key_parts(), key_parts(), days).prop_map(|(a, b, c, (year, month, day))| {
        let day = Date::new(year, month, day).unwrap().try_into().unwrap();
        PartitionKey::new(&a, &b, &c, day).unwrap()
    })
}

proptest! {
    // POL-4
    #[test]
    fn every_partition_is_read_back_as_it_was_written(key in keys()) {
        let unit = Unit::Partition(key);
        let written = unit.to_string();
        prop_assert!(written.bytes().all(|b| b.is_ascii_graphic()), "{}", written);
        prop_assert_eq!(written.parse(), Ok(unit));
    }

    // POL-4
    #[test]
    fn no_two_partitions_are_written_alike(a in keys(), b in keys()) {
        prop_assert_eq!(a == b, a.to_string() == b.to_string());
    }

    // POL-4
    #[test]
    fn no_two_ways_to_cut_a_text_are_written_alike(
        text in "[a-c/%.2F]{2,8}", i in 0_usize..8, j in 0_usize..8, k in 0_usize..8,
    ) {
        let cut = |at: usize| {
            let (left, right) = text.split_at(1 + at % (text.len() - 1));
            let middle = &text[..1 + k % text.len()];
            partition(left, middle, right).unwrap()
        };
        prop_assert_eq!(cut(i) == cut(j), cut(i).to_string() == cut(j).to_string());
    }

    #[test]
    fn every_sample_is_read_back_as_it_was_written(id in 1_i64.., stage in key_parts()) {
        let unit = Unit::Sample { id: SampleId(id), stage };
        prop_assert_eq!(unit.to_string().parse(), Ok(unit));
    }

    #[test]
    fn whatever_is_read_is_written_in_one_way(text in "(partition|run|item|sample):[a1%/0-9.-]{0,24}") {
        if let Ok(unit) = text.parse::<Unit>() {
            prop_assert_eq!(unit.to_string().parse(), Ok(unit));
        }
    }

    #[test]
    fn no_text_makes_the_parser_of_units_panic(kind in "(partition|run|item|sample|):?", text in texts(40)) {
        let _ = format!("{kind}{text}").parse::<Unit>();
    }
}
