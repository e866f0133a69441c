//! What goes wrong is told in the words of RFC 9457.

use serde_json::json;

use crate::site::Running;

#[tokio::test]
async fn every_kind_of_refusal_is_a_problem_with_its_status() {
    let site = Running::full().await;
    let client = &site.client;
    for (path, status) in [
        ("/nothing", 404),
        ("/v1/nothing", 404),
        ("/v1/runs/999999", 404),
        ("/v1/runs/x", 404),
        ("/v1/items/999999", 404),
        ("/v1/samples/999999", 404),
        ("/v1/pipeline-runs/999999", 404),
        ("/v1/pipeline-runs/999999/stats", 404),
        ("/v1/pipeline-runs/999999/output", 404),
        ("/v1/why?unit=run:999999", 404),
        ("/v1/gaps?source=nobody", 404),
        ("/v1/partitions/ads/1234/daily/2025-01-01/history", 404),
        ("/v1/partitions/ads/1234/daily/tomorrow", 400),
        ("/v1/why", 400),
        ("/v1/policies/nobody", 404),
        ("/v1/schedule?policy=nobody", 404),
        ("/v1/schedule?backoff=quick", 400),
        ("/v1/schedule?base=90", 400),
        ("/v1/schedule?base=2h&cap=1h", 400),
        ("/v1/schedule?multiplier=NaN", 400),
        ("/v1/schedule?multiplier=0.5", 400),
        ("/v1/schedule?jitter=-5%25", 400),
        ("/v1/schedule?max_attempts=0", 400),
        ("/v1/schedule?max_attempts=many", 400),
        ("/v1/schedule?attempts=0", 400),
        ("/v1/schedule?attempts=10001", 400),
        ("/v1/schedule?unit=thing:1", 400),
        ("/v1/readable?status=success", 400),
        ("/v1/readable?after=nothing", 400),
        ("/v1/partitions/ads/1234/daily/2026-01-02/rows", 409),
        ("/v1/partitions/ads/1234/daily/2025-01-01/rows", 409),
        ("/v1/partitions/ads/1234/daily/tomorrow/rows", 400),
        ("/v1/doctor/now", 404),
    ] {
        client.get(path).await.problem(status);
    }
    let post = async |path: &str, body| client.post(path, &body).await;
    post("/v1/runs", json!({ "payload": 1 })).await.problem(400);
    post("/v1/runs", json!({ "queue": "q", "colour": 1 })).await.problem(400);
    post("/v1/runs/retry", json!({})).await.problem(400);
    post("/v1/runs/retry", json!({ "ids": [1], "queue": "work" })).await.problem(400);
    post("/v1/runs/retry", json!({ "ids": [1], "status": "error" })).await.problem(400);
    post("/v1/runs/retry", json!({ "queue": "nobody" })).await.problem(422);
    post("/v1/runs/retry", json!({ "queue": "work", "token": "0" })).await.problem(400);
    post("/v1/runs/retry", json!({ "queue": "work", "pace": "fast" })).await.problem(400);
    post("/v1/runs/retry", json!({ "ids": [1], "pace": "1/s" })).await.problem(400);
    post("/v1/runs/retry", json!({ "queue": "a\u{0}" })).await.problem(400);
    post("/v1/partitions/explode", json!({ "all": true })).await.problem(404);
    post("/v1/partitions/retry", json!({})).await.problem(400);
    let both = json!({ "ids": ["ads/1234/daily/2026-01-02"], "source": "ads" });
    post("/v1/partitions/retry", both).await.problem(400);
    post("/v1/dead-letters/reprocess", json!({})).await.problem(400);
    post("/v1/dead-letters/reprocess", json!({ "ids": [1], "all": true })).await.problem(400);
    post("/v1/items/reset", json!({ "upload": "tiles", "token": "0" })).await.problem(400);
    post("/v1/pipeline-runs/1/cancel", json!({})).await.problem(409);
    post("/v1/pipelines/nobody/runs", json!({})).await.problem(404);
    post("/v1/prune", json!({})).await.problem(400);
    post("/v1/prune", json!({ "before": "yesterday" })).await.problem(400);
    post("/v1/prune", json!({ "before": "9999-01-01T00:00:00Z" })).await.problem(400);
    post("/v1/prune", json!({ "before": "2020-01-01T00:00:00Z" })).await.problem(422);
    let elsewhere = json!({ "before": "2020-01-01T00:00:00Z", "export": "/etc" });
    post("/v1/prune", elsewhere).await.problem(400);
    post("/v1/queues/%20/pause", json!({ "command": "rm" })).await.problem(400);
    let long = "q".repeat(3_000);
    post(&format!("/v1/queues/{long}/pause"), json!({})).await.problem(400);
    let days = json!({ "source": "ads", "since": "2026-01-02", "until": "2026-01-01" });
    post("/v1/partitions/backfill", days).await.problem(400);
}

// PAR-7, PAR-12
#[tokio::test]
async fn rows_that_cannot_be_read_say_whether_they_ever_will_be() {
    let client = &Running::full().await.client;
    let rows =
        async |day: &str| client.get(&format!("/v1/partitions/ads/1234/daily/{day}/rows")).await;
    assert_eq!(rows("2025-01-01").await.problem(409)["reason"], "missing");
    assert_eq!(rows("2026-01-02").await.problem(409)["reason"], "failed");
    let mark = json!({ "ids": ["ads/1234/daily/2026-01-02"] });
    client.post("/v1/partitions/mark-terminal", &mark).await.ok();
    assert_eq!(rows("2026-01-02").await.problem(410)["reason"], "gone");
    client.post("/v1/partitions/clear-terminal", &mark).await.ok();
    client.post("/v1/partitions/retry", &json!({ "ids": mark["ids"], "force": true })).await.ok();
    assert_eq!(rows("2026-01-02").await.problem(409)["reason"], "late");
}

#[tokio::test]
async fn a_method_a_media_type_and_a_size_that_do_not_fit_are_told_apart() {
    let site = Running::empty().await;
    let client = &site.client;
    for (method, path) in [("DELETE", "/v1/runs"), ("PUT", "/v1/runs/1"), ("POST", "/journal")] {
        let answer = client.send(method, path, Some("application/json"), "{}").await;
        answer.problem(405);
        assert!(answer.header("allow").is_some_and(|allow| allow.contains("GET")), "{answer:?}");
    }
    for kind in [None, Some("text/csv"), Some("application/jsonl")] {
        client.send("POST", "/v1/runs", kind, "{}").await.problem(415);
        client.send("POST", "/v1/runs/retry", kind, "{}").await.problem(415);
    }
    let kind = Some("Application/JSON; charset=utf-8");
    assert_eq!(client.send("POST", "/v1/runs", kind, "{\"queue\": \"q\"}").await.status, 201);
    let large = format!("{{\"reason\": \"{}\"}}", "x".repeat(300_000));
    client.send("POST", "/v1/runs/retry", Some("application/json"), &large).await.problem(413);
    client.browsing().with("Accept", "*/*").submit("/login", &large).await.problem(413);
    for body in ["", "{", "[1", "\u{feff}{}", "nul", "{\"queue\": 1}", "[[[[["] {
        client.send("POST", "/v1/runs", Some("application/json"), body).await.problem(400);
    }
    client
        .send("POST", "/v1/runs", Some("application/json"), &"[".repeat(100_000))
        .await
        .problem(400);
}

#[tokio::test]
async fn people_get_a_page_and_programs_a_problem() {
    let site = Running::empty().await;
    for path in ["/nothing", "/runs/1", "/runs/x", "/runs?colour=red", "/partitions/a/b/c/d"] {
        let page = site.client.browsing().get(path).await;
        assert!((400..500).contains(&page.status), "{page:?}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        assert!(page.body.contains("Go to the overview"), "{path}");
        site.client.get(path).await.problem(page.status);
    }
    site.client.browsing().get("/v1/nothing").await.problem(404);
}
