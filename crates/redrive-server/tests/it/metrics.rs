//! `/metrics`.

use redrive_core::{AttemptNumber, Cause};
use redrive_store::{AttemptOutcome, AttemptRecord, UnitKind, UnitRow};

use crate::site::Running;

async fn metrics(site: &Running) -> String {
    let answer = site.client.get("/metrics").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    answer.body
}

#[tokio::test]
async fn everything_is_counted_for_prometheus_with_few_labels() {
    let site = Running::full().await;
    let page = metrics(&site).await;
    for figure in [
        "redrive_units{kind=\"run\",state=",
        "redrive_dlq_depth 9.0",
        "redrive_retries_scheduled ",
        "redrive_queue_lag_seconds_bucket{le=\"+Inf\"}",
        "redrive_store_write_seconds_count ",
    ] {
        assert!(page.contains(figure), "{figure}: {page}");
    }
    assert!(page.ends_with("# EOF\n"), "{page}");
    // What is free text, or grows with the number of units, is no label.
    assert!(!page.contains("the mill stands still"), "{page}");
}

#[tokio::test]
async fn attempts_are_counted_from_when_the_server_began() {
    let site = Running::empty().await;
    metrics(&site).await;
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let unit = UnitRow::new(UnitKind::Run, 7);
    let lost = AttemptRecord {
        outcome: AttemptOutcome::Retrying,
        class: Some("retryable".to_owned()),
        cause: Some(Cause::LostWorker),
        ..AttemptRecord::success(unit, AttemptNumber(1), at(100), at(103), "w1")
    };
    site.store.append_attempts(&[lost]).await.unwrap();
    // Figures are kept for a second.
    let page = loop {
        let page = metrics(&site).await;
        if page.contains("redrive_leases_lost_total{kind=\"run\"} 1") {
            break page;
        }
        tokio::task::yield_now().await;
    };
    let attempts =
        "redrive_attempts_total{kind=\"run\",outcome=\"retrying\",class=\"retryable\"} 1";
    assert!(page.contains(attempts), "{page}");
    let lasted = "redrive_attempt_duration_seconds_bucket{le=\"10.0\",kind=\"run\"} 1";
    assert!(page.contains(lasted) || page.contains("{kind=\"run\",le=\"10.0\"} 1"), "{page}");
}
