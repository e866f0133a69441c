//! Async functions as extractors.

use std::time::Duration;

use redrive_core::{Failure, PartitionStatus};
use redrive_engine::{Call, Outcome, RowWriter, Source, extractor_fn};
use serde_json::json;

use crate::extraction::{extracted, extracted_by};

const DONE: Outcome = Outcome::Answered { value: None, verdict: None };

// PAR-2, HANDLERS-1
#[tokio::test]
async fn a_function_writes_rows_and_says_what_they_are() {
    let extracted = extracted(extractor_fn(|call: Call, rows: RowWriter| async move {
        rows.row(&json!({ "customer": call.details["customer_id"] })).await.unwrap();
        rows.write(b"{\"n\": 1}\n{\"n\"").await.unwrap();
        rows.clone().write(b": 2}").await.unwrap();
        Outcome::Answered { value: Some(json!({ "schema_version": 3, "pages": 1 })), verdict: None }
    }));
    let extracted = extracted.await;
    assert_eq!(extracted.rows().await, "{\"customer\":\"1234\"}\n{\"n\": 1}\n{\"n\": 2}\n");
    let record = &extracted.record;
    assert_eq!((record.record_count, record.schema_version.as_deref()), (Some(3), Some("3")));
    let run = record.current_run_id.as_ref().unwrap();
    let metadata = extracted.sink.metadata(&record.key, run).await.unwrap().unwrap();
    assert_eq!(metadata.extractor, json!({ "pages": 1 }).as_object().unwrap().clone());
}

// PAR-4
#[tokio::test]
async fn a_function_that_fails_panics_or_answers_nonsense_leaves_no_run() {
    let row = |rows: RowWriter| async move { rows.row(&json!({ "n": 1 })).await.unwrap() };
    let failing = extractor_fn(move |_, rows| async move {
        row(rows).await;
        Outcome::Failed(Failure::http(503, None, "busy [terminal]"))
    });
    let panicking = extractor_fn(move |call: Call, rows| async move {
        row(rows).await;
        assert!(call.run_id.is_none(), "out of paper");
        DONE
    });
    let skipping = extractor_fn(move |_, _| async { Outcome::Skipped("a holiday".to_owned()) });
    let nonsense = extractor_fn(move |_, _| async {
        Outcome::Answered { value: Some(json!([1, 2])), verdict: None }
    });
    for (extractor, problem) in [
        (failing, "no raw partition: busy (terminal)"),
        (panicking, "no raw partition: the handler panicked: out of paper"),
        (skipping, "no raw partition: a partition cannot be skipped: a holiday"),
        (nonsense, "no raw partition: an extractor must answer with an object"),
    ] {
        let extracted = extracted(extractor).await;
        assert!(extracted.problem().await.starts_with(problem), "{:?}", extracted.record);
        assert_eq!(extracted.record.attempt_count, 1);
    }
}

// PAR-4
#[tokio::test]
async fn a_function_over_its_time_limit_is_dropped() {
    let extracted = extracted_by(|sink| {
        let endless = extractor_fn(|_, rows: RowWriter| async move {
            rows.row(&json!({ "n": 1 })).await.unwrap();
            std::future::pending().await
        });
        let mut source = Source::new("ads", endless, sink);
        source.time_limit = Duration::from_millis(20);
        source
    });
    let extracted = extracted.await;
    assert!(extracted.problem().await.contains("longer than its time limit"));
}

// PAR-3
#[tokio::test]
async fn rows_that_come_after_the_end_are_refused() {
    let (late, kept) = tokio::sync::oneshot::channel();
    let late = std::sync::Mutex::new(Some(late));
    let extracted = extracted(extractor_fn(move |_, rows: RowWriter| {
        let late = late.lock().unwrap().take().unwrap();
        async move {
            rows.row(&json!({ "n": 1 })).await.unwrap();
            late.send(rows).unwrap();
            DONE
        }
    }));
    let extracted = extracted.await;
    assert!(kept.await.unwrap().write(b"{}\n").await.is_err());
    assert_eq!(extracted.record.status, PartitionStatus::Success);
    assert_eq!(extracted.rows().await, "{\"n\":1}\n");
}

// PAR-3
#[tokio::test]
async fn a_sink_that_cannot_be_written_to_is_a_failed_attempt() {
    let blocked = extracted_by(|sink| {
        std::fs::write(sink.to_string(), "in the way").unwrap();
        Source::new("ads", extractor_fn(|_, _| async { DONE }), sink)
    });
    let blocked = blocked.await.record;
    assert_eq!(blocked.status, PartitionStatus::Failed);
    assert!(blocked.error_message.unwrap().starts_with("no raw partition: cannot"), "and why");
}
