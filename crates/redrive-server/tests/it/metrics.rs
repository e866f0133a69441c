//! `/metrics`.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use jiff::Timestamp;
use redrive_core::{AttemptNumber, Cause};
use redrive_store::{AttemptOutcome, AttemptRecord, Operator, UnitKind, UnitRow};

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
        // A fast machine asks more often than one address may: then the answer is no page.
        let page = site.client.get("/metrics").await.body;
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

/// The older text format, which `promtool` checks.
async fn text_metrics(site: &Running) -> String {
    let answer = site.client.with("Accept", "text/plain;version=0.0.4").get("/metrics").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    answer.body
}

#[tokio::test]
async fn the_text_format_comes_on_request_with_figures_of_each_queue_and_promtool_accepts_it() {
    let site = Running::full().await;
    let by = Operator { actor: "filler".to_owned(), at: Timestamp::UNIX_EPOCH, reason: None };
    for queue in ["work", "odd \"name\" \\ of\na queue"] {
        site.store.pause_queue(queue, &by).await.unwrap();
    }
    let page = loop {
        let page = text_metrics(&site).await;
        // Figures are kept for a second.
        if page.contains("redrive_queue_paused{queue=\"work\"} 1") {
            break page;
        }
        tokio::task::yield_now().await;
    };
    for figure in [
        concat!("redrive_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        "redrive_queue_depth{queue=\"later\"} 1",
        "redrive_queue_depth{queue=\"work\"} 0",
        "redrive_queue_given_up{queue=\"work\"} 9",
        "redrive_queue_paused{queue=\"later\"} 0",
        "# TYPE redrive_attempts_total counter",
    ] {
        assert!(page.contains(figure), "{figure}: {page}");
    }
    assert!(!page.contains("# EOF"), "{page}");
    let promtool = tool("promtool");
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let said = check.wait_with_output().unwrap();
    assert!(said.status.success(), "{said:?}\n{page}");
    // Prometheus asks for both, and prefers OpenMetrics.
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
    let answer = site.client.with("Accept", accept).get("/metrics").await;
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
}

/// What a script that provides a program prints: where the program is.
pub(crate) fn tool(script: &str) -> String {
    let path = format!("{}/../../scripts/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(path).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "scripts/{script} failed");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
