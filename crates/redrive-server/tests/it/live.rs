//! Pages that are told of changes.

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::site::Running;

/// The data of the next change.
async fn next(lines: &mut (impl AsyncBufReadExt + Unpin)) -> u64 {
    let mut line = String::new();
    loop {
        line.clear();
        assert_ne!(lines.read_line(&mut line).await.unwrap(), 0, "it ended");
        if let Some(version) = line.trim().strip_prefix("data: ") {
            return version.parse().unwrap();
        }
    }
}

#[tokio::test]
async fn a_page_is_told_when_something_changes_and_does_not_keep_a_server_that_stops() {
    let site = Running::full().await;
    let mut events = BufReader::new(site.client.open("/events").await);
    let first = next(&mut events).await;
    site.client.post("/v1/runs", &json!({ "queue": "work" })).await;
    assert!(next(&mut events).await > first);
    site.end().await;
    let mut rest = Vec::new();
    while events.read_until(b'\n', &mut rest).await.unwrap() > 0 {}
}
