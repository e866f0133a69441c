//! Submitting, also twice.

use serde_json::{Value, json};

use crate::site::Running;

#[tokio::test]
async fn the_same_submission_under_the_same_key_is_made_once() {
    let site = Running::empty().await;
    let keyed = site.client.with("Idempotency-Key", "\"order-7\"");
    let body = json!({ "queue": "work", "payload": { "n": 1 } });
    let first = keyed.post("/v1/runs", &body).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(first.json()["outcome"], "accepted");
    let again = keyed.post("/v1/runs", &body).await.ok();
    assert_eq!((&again["outcome"], &again["id"]), (&json!("duplicate"), &first.json()["id"]));
    let other = json!({ "queue": "work", "payload": { "n": 2 } });
    keyed.post("/v1/runs", &other).await.problem(409);
    let own = json!({ "queue": "work", "payload": { "n": 2 }, "idempotency_key": "mine" });
    assert_eq!(keyed.post("/v1/runs", &own).await.status, 201, "its own key comes first");
    let run = site.client.get(&format!("/v1/runs/{}", first.json()["id"])).await.ok();
    assert_eq!(run["idempotency_key"], "order-7");
    for key in ["", "\"\"", &"k".repeat(1_000)] {
        site.client.with("Idempotency-Key", key).post("/v1/runs", &body).await.problem(400);
    }
    assert_eq!(site.client.get("/v1/runs").await.ok()["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn of_many_each_is_made_once_and_a_bad_one_does_not_stop_the_rest() {
    let site = Running::empty().await;
    let keyed = site.client.with("Idempotency-Key", "batch");
    let body = json!([{ "queue": "work", "payload": 1 }, { "payload": 2 }, { "queue": "work", "payload": 3 }]);
    let counts = |answer: &Value| {
        ["accepted", "duplicate", "refused"].map(|name| answer[name].as_u64().unwrap())
    };
    let first = keyed.post("/v1/runs", &body).await.ok();
    assert_eq!(counts(&first), [2, 0, 1], "{first}");
    assert!(first["runs"][1]["reason"].as_str().unwrap().contains("queue"), "{first}");
    let again = keyed.post("/v1/runs", &body).await.ok();
    assert_eq!(counts(&again), [0, 2, 1], "{again}");
    assert_eq!(again["runs"][2]["id"], first["runs"][2]["id"]);
    let many: Vec<Value> = (0..1_001).map(|n| json!({ "queue": "work", "payload": n })).collect();
    site.client.post("/v1/runs", &json!(many)).await.problem(400);
    let answer = site.client.post("/v1/runs", &json!(many[..1_000])).await.ok();
    assert_eq!(counts(&answer), [1_000, 0, 0]);
    assert_eq!(counts(&site.client.post("/v1/runs", &json!([])).await.ok()), [0, 0, 0]);
}
