//! Submitting, also twice.

use serde_json::{Value, json};

use crate::site::Running;

// FIX-5, FIX-6
#[tokio::test]
async fn a_payload_is_edited_over_the_api_and_by_the_form_of_the_run() {
    let site = Running::empty().await;
    let run = site.client.post("/v1/runs", &json!({ "queue": "work", "payload": 1 })).await.json();
    let id = run["id"].as_i64().unwrap();
    let path = format!("/v1/runs/{id}/edit");
    let edited = site.client.post(&path, &json!({ "payload": { "n": 2 } })).await.ok();
    assert_eq!(edited["payload"], json!({ "n": 2 }));
    let same = site.client.post(&path, &json!({ "payload": { "n": 2 } })).await.problem(409);
    assert!(same["detail"].as_str().unwrap().contains("already"), "{same}");
    site.client.post("/v1/runs/99/edit", &json!({ "payload": 1 })).await.problem(404);
    let page = format!("/runs/{id}");
    let shown = site.client.browsing().get(&page).await.body;
    assert!(shown.contains(&format!("action=\"{page}/edit\"")), "{shown}");
    let form = format!("{page}/edit");
    let sent = site.client.browsing().submit(&form, "payload=%7B%22n%22%3A3%7D&reason=typo").await;
    assert_eq!((sent.status, sent.header("location")), (303, Some(page.as_str())));
    let wrong = site.client.browsing().submit(&form, "payload=%7B&reason=").await;
    assert_eq!(wrong.status, 400);
    let run = site.client.get(&format!("/v1{page}")).await.ok();
    assert_eq!(run["payload"], json!({ "n": 3 }));
    let edits = site.journal().await.into_iter().filter(|(_, action)| action == "run.edit");
    assert_eq!(edits.count(), 2);
}

// FIX-2, FIX-5
#[tokio::test]
async fn a_form_that_is_out_of_date_overwrites_no_newer_edit() {
    let site = Running::full().await;
    for (list, page, of, field) in [
        ("/v1/runs?status=error&limit=1", "runs", "/v1/runs", "payload"),
        ("/v1/dead-letters?limit=1", "dead-letters", "/v1/samples", "data"),
    ] {
        let id = site.client.get(list).await.ok()["items"][0]["id"].to_string();
        let shown = site.client.browsing().get(&format!("/{page}/{id}")).await.body;
        let token = shown.split("name=\"token\" value=\"").nth(1).unwrap();
        let token = token.split('"').next().unwrap();
        let save = async |number| {
            let form = format!("token={token}&{field}={number}&reason=");
            site.client.browsing().submit(&format!("/{page}/{id}/edit"), &form).await
        };
        assert_eq!(save(7).await.status, 303);
        let late = save(8).await;
        assert_eq!(late.status, 409);
        assert!(late.body.contains("has changed meanwhile"), "{}", late.body);
        let kept = site.client.get(&format!("{of}/{id}")).await.ok();
        assert_eq!(kept[field], 7);
    }
}

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
