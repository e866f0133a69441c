//! What extractors are told, and what they may tell.

use redrive::{PartitionStatus, jiff::ToSpan};
use serde_json::{Value, json};

use super::yard::Yard;

// HANDLERS-2
#[test]
fn an_extractor_has_the_key_and_the_run_in_its_call_and_its_environment() {
    let yard = Yard::on_sqlite();
    let record = yard.drained("ads/1234/call/2026-01-31");
    let rows = yard.rows(&record.key);
    let [call, variables] = rows.lines().collect::<Vec<_>>()[..] else { panic!("{rows}") };
    let run = record.current_run_id.as_ref().unwrap().as_str();
    let expected = json!({
        "id": "partition:ads/1234/call/2026-01-31#1",
        "kind": "partition",
        "unit": "partition:ads/1234/call/2026-01-31",
        "attempt": 1,
        "run_id": run,
        "source": "ads",
        "customer_id": "1234",
        "query_name": "call",
        "logical_date": "2026-01-31",
    });
    assert_eq!(serde_json::from_str::<Value>(call).unwrap(), expected);
    let variables: Value = serde_json::from_str(variables).unwrap();
    let expected = format!("partition ads 1234 call 2026-01-31 {run} 1");
    assert_eq!(variables["variables"], expected);
}

// PAR-3
#[test]
fn an_extractor_may_describe_its_rows_on_the_last_line_of_stderr() {
    let yard = Yard::on_sqlite();
    let record = yard.drained("ads/1234/described/2026-01-31");
    assert_eq!(record.schema_version.as_deref(), Some("7"));
    let run = record.current_run_id.unwrap();
    let metadata = yard.block_on(yard.sink().metadata(&record.key, &run)).unwrap().unwrap();
    assert_eq!(Value::Object(metadata.extractor), json!({ "api": "v3" }));

    let record = yard.drained("ads/1234/logging/2026-01-31");
    assert_eq!(record.status, PartitionStatus::Success, "a log is no reply");
    let record = yard.drained("strict/1234/fine/2026-01-31");
    assert_eq!(record.schema_version.as_deref(), Some("2"), "as the source says");
}

// HANDLERS-2
#[test]
fn a_row_with_an_error_and_more_is_a_row() {
    let yard = Yard::on_sqlite();
    for (query, rows) in [("errors", 3), ("vouched", 1)] {
        let record = yard.drained(&format!("ads/1234/{query}/2026-01-31"));
        assert_eq!(
            (record.status, record.record_count),
            (PartitionStatus::Success, Some(rows)),
            "{query}: {record:?}"
        );
    }
}

// POL-7, DMN-1
#[test]
fn the_daemon_waits_as_long_as_the_server_asked_for() {
    for yard in Yard::both() {
        let record = yard.drained("ads/1234/limited/2026-01-31");
        let why = ["why", "partition:ads/1234/limited/2026-01-31", "-o", "json"];
        let story: Value = serde_json::from_str(&yard.shop.run(&why).ok()).unwrap();
        let next = story["next"]["at"].as_str().unwrap().parse::<redrive::jiff::Timestamp>();
        assert_eq!(next.unwrap(), record.updated_at + 2.hours());
        assert_eq!(story["attempts"][0]["rule"], "failure 1: the server asked for 2h");
        let because = story["next"]["because"].as_str().unwrap();
        assert!(because.ends_with("failure 1, the server asked for 2h"), "{because}");
    }
}

// HANDLERS-3
#[test]
fn a_program_that_stays_running_prints_rows_and_then_its_reply() {
    for yard in Yard::both() {
        let queries = ["fine", "many", "busy", "both", "dies", "leaves"];
        let keys = queries.map(|query| yard.ask(&format!("flowing/1234/{query}/2026-01-31")));
        yard.drain();
        let [fine, many, busy, both, dies, leaves] = keys.each_ref().map(|key| yard.record(key));
        assert_eq!(yard.rows(&fine.key), "{\"n\": 1}\n{\"n\":  12345678901234567890123}\n");
        assert_eq!(fine.schema_version.as_deref(), Some("5"));
        assert_eq!((many.status, many.record_count), (PartitionStatus::Success, Some(20_000)));
        assert_eq!((leaves.status, leaves.record_count), (PartitionStatus::Success, Some(1)));
        for (record, message) in [
            (busy, "no raw partition: slow down"),
            (both, "a line has either a row or a reply"),
            (dies, "no raw partition: the program ended with exit status: 75"),
        ] {
            let said = record.error_message.unwrap_or_default();
            assert!(said.contains(message), "{message}: {said}");
            assert_eq!(yard.block_on(yard.sink().runs(&record.key)).unwrap(), []);
        }
    }
}

// OPS-7
#[test]
fn a_worker_serves_what_it_is_asked_to() {
    let yard = Yard::on_sqlite();
    let [ads, strict] =
        ["ads", "strict"].map(|source| yard.ask(&format!("{source}/1234/fine/2026-01-31")));
    yard.shop.run(&["worker", "--drain", "-q", "--queues", "work"]).ok();
    assert_eq!(yard.record(&ads).attempt_count, 0);
    yard.shop.run(&["worker", "--drain", "-q", "--sources", "strict"]).ok();
    assert_eq!((yard.record(&ads).attempt_count, yard.record(&strict).attempt_count), (0, 1));
    let refused = yard.shop.run(&["worker", "--sources", "adz"]).failed(2);
    assert!(refused.contains("there is no source \"adz\""), "{refused}");
    assert!(refused.contains("did you mean `ads`?"), "{refused}");
}
