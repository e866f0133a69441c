//! Rows behind HTTP, page by page.

use std::sync::Arc;

use http::Method;
use redrive_core::PartitionStatus;
use redrive_engine::{BodyTemplate, HttpExtractor, HttpSpec, Paging};
use serde_json::json;

use crate::{
    extraction::{ExtractedPartition, extracted},
    web::{Seen, Web, answer},
};

fn paging() -> Paging {
    Paging { rows: "/data/rows".parse().unwrap(), next: Some("/next".parse().unwrap()) }
}

async fn paged(spec: HttpSpec) -> ExtractedPartition {
    extracted(Arc::new(HttpExtractor::new(spec, paging()).unwrap())).await
}

/// Answers the n-th request with the n-th of these.
async fn pages(pages: &'static [&'static str]) -> Web {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Web::new(move |_: &Seen| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        answer(200, "", pages[number.min(pages.len() - 1)])
    })
    .await
}

// HANDLERS-4, PAR-2
#[tokio::test]
async fn pages_are_asked_for_until_there_is_no_next() {
    let web = pages(&[
        r#"{"data": {"rows": [{"n": 1}, {"n":
            12345678901234567890.5}]}, "next": "a/b&c"}"#,
        r#"{"data": {"rows": []}, "next": 3}"#,
        r#"{"data": {"rows": [{"n": "\n"}]}, "next": null}"#,
    ]);
    let web = web.await;
    let mut spec = web.spec();
    spec.method = Method::GET;
    let take = |pointer: &str| BodyTemplate::new(json!({ "$": pointer })).unwrap();
    spec.query =
        vec![("day".to_owned(), take("/logical_date")), ("page".to_owned(), take("/cursor"))];
    let extracted = paged(spec).await;
    let rows = extracted.rows().await;
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows[1].contains("12345678901234567890.5"), "no number loses a digit: {rows:?}");
    let asked: Vec<String> =
        web.seen().iter().map(|seen| seen.head.lines().next().unwrap().to_owned()).collect();
    assert_eq!(
        asked,
        [
            "GET /do?a=b&day=2026%2D01%2D31 HTTP/1.1",
            "GET /do?a=b&day=2026%2D01%2D31&page=a%2Fb%26c HTTP/1.1",
            "GET /do?a=b&day=2026%2D01%2D31&page=3 HTTP/1.1",
        ]
    );
    let seen = web.seen();
    let keys: Vec<_> = seen.iter().map(|seen| seen.header("idempotency-key").unwrap()).collect();
    assert!(keys[0] != keys[1] && keys[1] != keys[2], "{keys:?}");
}

// HANDLERS-4
#[tokio::test]
async fn a_body_takes_the_cursor_from_the_call() {
    let web = pages(&[
        r#"{"data": {"rows": [{"n": 1}]}, "next": "two"}"#,
        r#"{"data": {"rows": [{"n": 2}]}}"#,
    ]);
    let web = web.await;
    assert_eq!(paged(web.spec()).await.rows().await, "{\"n\": 1}\n{\"n\": 2}\n");
    let [first, second] = &web.seen()[..] else { panic!() };
    assert_eq!((&first.json()["cursor"], &second.json()["cursor"]), (&json!(null), &json!("two")));
    assert_eq!(second.json()["logical_date"], "2026-01-31");
}

// HANDLERS-4, PAR-4
#[tokio::test]
async fn a_page_that_fails_fails_the_partition() {
    const FIRST: &str = r#"{"data": {"rows": [{"n": 1}]}, "next": "two"}"#;
    let cases = [
        (503, "busy", "no raw partition: the server answered 503"),
        (200, "<html>", "the response is not JSON"),
        (200, "{}", "the response has no list at"),
        (200, FIRST, "names the cursor \"two\" again"),
        (200, r#"{"data": {"rows": []}, "next": {}}"#, "is neither a string nor a number"),
    ];
    for (status, page, problem) in cases {
        let web = Web::new(move |seen| match seen.json()["cursor"].is_null() {
            true => answer(200, "", FIRST),
            false => answer(status, "", page),
        });
        let web = web.await;
        let extracted = paged(web.spec()).await;
        assert!(extracted.problem().await.contains(problem), "{:?}", extracted.record);
        assert_eq!(extracted.record.status, PartitionStatus::Failed);
    }
}
