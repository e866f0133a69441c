//! Extraction and verdict, from the program's exit to the row of state.

use redrive::PartitionStatus;

use super::yard::Yard;

// PAR-2, PAR-4, PAR-5
#[test]
fn an_extracted_partition_that_validates_is_readable() {
    for yard in Yard::both() {
        let record = yard.drained("ads/1234/fine/2026-01-31");
        assert_eq!((record.attempt_count, record.record_count), (1, Some(2)));
        let row = |n| format!("{{\"customer\": \"1234\", \"day\": \"2026-01-31\", \"n\": {n}}}\n");
        assert_eq!(yard.rows(&record.key), row(1) + &row(2));
        let [attempt] = &yard.ledger(&record.key)[..] else { panic!() };
        assert_eq!(attempt.outcome.name(), "success");
        assert_eq!(attempt.run_id.as_deref(), record.current_run_id.as_ref().map(|id| id.as_str()));
        assert!(record.work.is_none(), "nothing is outstanding");
        yard.shop.run(&["doctor"]).ok();
    }
}

// PAR-4
#[test]
fn every_attempt_that_is_not_good_is_failed_with_what_was_wrong() {
    let cases = [
        ("ads/1234/garbage/2026-01-31", "bad_row", "validator", "line 2 is not a JSON object"),
        ("ads/1234/busy/2026-01-31", "75", "handler", "no raw partition: over quota (terminal)"),
        (
            "ads/1234/reported/2026-01-31",
            "no_such_query",
            "handler",
            "no raw partition: gone (terminal)",
        ),
        ("ads/1234/misplaced/2026-01-31", "429", "handler", "no raw partition: slow down"),
        (
            "ads/1234/killed/2026-01-31",
            "signal_9",
            "handler",
            "no raw partition: the program ended",
        ),
        (
            "ads/1234/held/2026-01-31",
            "output_open",
            "handler",
            "no raw partition: the program ended, but a process it started still holds its stdout open",
        ),
        ("strict/1234/late/2026-01-31", "timeout", "timeout", "no raw partition: the program took"),
        ("strict/1234/one/2026-01-31", "too_few_rows", "validator", "1 rows, the minimum is 2"),
        ("strict/nobody/fine/2026-01-31", "rejected", "validator", "no such customer"),
    ];
    for yard in Yard::both() {
        let keys = cases.map(|(key, ..)| yard.ask(key));
        yard.drain();
        for (key, (name, code, cause, message)) in keys.iter().zip(cases) {
            let record = yard.record(key);
            assert_eq!(
                (record.status, record.attempt_count),
                (PartitionStatus::Failed, 1),
                "{name}"
            );
            assert_eq!((&record.current_run_id, record.record_count), (&None, None), "{name}");
            let said = record.error_message.unwrap();
            assert!(said.contains(message) && !said.contains("[terminal]"), "{name}: {said}");
            let [attempt] = &yard.ledger(key)[..] else { panic!("{name}") };
            let ended = (attempt.code.as_deref(), attempt.cause.map(|cause| cause.name()));
            assert_eq!(ended, (Some(code), Some(cause)), "{name}");
        }
        yard.shop.run(&["doctor"]).ok();
    }
}

// PAR-4
#[test]
fn a_failed_extraction_leaves_nothing_that_looks_like_a_run() {
    let yard = Yard::on_sqlite();
    for query in ["busy", "killed", "held"] {
        let record = yard.drained(&format!("ads/1234/{query}/2026-01-31"));
        assert_eq!(yard.block_on(yard.sink().runs(&record.key)).unwrap(), [], "{query}");
        let attempt = &yard.ledger(&record.key)[0];
        let run = attempt.run_id.as_deref().unwrap().parse().unwrap();
        let payload = yard.sink().location(&record.key, &run).payload;
        assert!(!std::path::Path::new(&payload).exists(), "{payload}");
    }
}

// PAR-2
#[test]
fn a_partition_without_rows_is_a_partition() {
    let yard = Yard::on_sqlite();
    let record = yard.drained("ads/1234/empty/2026-01-31");
    assert_eq!((record.status, record.record_count), (PartitionStatus::Success, Some(0)));
    assert_eq!(yard.rows(&record.key), "");
    let record = yard.drained("ads/1234/open/2026-01-31");
    assert!(yard.rows(&record.key).ends_with("{\"n\": 2}\n"), "the last line gets its end");
}

// PAR-6, PAR-2
#[test]
fn a_retry_is_a_new_run_beside_the_old_and_counts_on() {
    for yard in Yard::both() {
        let key = yard.ask("ads/1234/busy/2026-01-31");
        for count in 1..=3 {
            yard.drain();
            assert_eq!(yard.record(&key).attempt_count, count);
            yard.retry(&key);
        }
        let runs: Vec<_> = yard.ledger(&key).into_iter().map(|attempt| attempt.run_id).collect();
        assert!(runs.is_sorted() && runs[0] != runs[1] && runs[1] != runs[2], "{runs:?}");
    }
}
