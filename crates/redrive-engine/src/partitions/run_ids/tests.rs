use std::collections::HashSet;

use super::*;

fn ids() -> RunIds {
    RunIds::new(&WorkerId("w-0123".to_owned()), "ads")
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

// PAR-2
#[test]
fn run_ids_are_unique_and_in_the_order_of_time_whatever_the_clock_does() {
    let ids = ids();
    let mut made = ids.generate(10_000, at("2026-01-01T00:00:00Z"));
    made.extend(ids.generate(10, at("2025-01-01T00:00:00Z")));
    made.extend(ids.generate(10, at("2026-01-01T00:00:01Z")));
    assert!(made.is_sorted(), "in the order in which they were made");
    assert_eq!(made.iter().collect::<HashSet<_>>().len(), 10_020);
}

// PAR-2
#[test]
fn a_run_id_is_a_uuid_of_version_7() {
    let [id] = &ids().generate(1, at("2026-01-01T00:00:00Z"))[..] else { panic!() };
    let groups: Vec<&str> = id.as_str().split('-').collect();
    assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(groups[2].starts_with('7') && "89ab".contains(&groups[3][..1]), "{id}");
    let milliseconds = i64::from_str_radix(&groups[..2].concat(), 16).unwrap();
    assert_eq!(milliseconds, at("2026-01-01T00:00:00Z").as_millisecond());
}

// PAR-2
#[test]
fn two_workers_and_two_sources_never_make_the_same() {
    let now = at("2026-01-01T00:00:00Z");
    let other = RunIds::new(&WorkerId("w-0124".to_owned()), "ads");
    let source = RunIds::new(&WorkerId("w-0123".to_owned()), "shop");
    let made = [ids(), other, source].map(|ids| ids.generate(1, now));
    assert_eq!(made.iter().collect::<HashSet<_>>().len(), 3);
}
