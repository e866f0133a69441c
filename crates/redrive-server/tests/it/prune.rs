//! Taking out of the store what is finished and old, over HTTP.

use std::fs;

use redrive_engine::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::site::Running;

fn with(body: &Value, name: &str, value: impl Into<Value>) -> Value {
    let mut body = body.clone();
    body[name] = value.into();
    body
}

/// The names of what was written.
fn written(site: &Running) -> Vec<String> {
    let Ok(files) = fs::read_dir(site.folder.path().join("archive")) else { return Vec::new() };
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

// OPS-8
#[tokio::test]
async fn a_prune_takes_the_token_of_a_dry_run_and_tells_what_went_where() {
    let site = Running::full().await;
    let client = site.client.with("Redrive-Actor", "anna");
    let body = json!({ "before": SystemClock.now().to_string(), "queue": "work", "reason": "old" });
    let prune = async |body: &Value| client.post("/v1/prune", body).await;
    let look = prune(&with(&body, "dry_run", true)).await.ok();
    assert_eq!(
        (&look["runs"], &look["samples"], &look["files"]),
        (&json!(25), &json!(0), &json!([]))
    );
    assert_eq!(prune(&with(&body, "dry_run", true)).await.ok(), look, "looking changes nothing");
    prune(&body).await.problem(428);
    prune(&with(&body, "token", "0123")).await.problem(409);
    let other = with(&with(&body, "pipeline", "flour"), "token", look["token"].clone());
    prune(&other).await.problem(409);
    let before = site.journal().await.len();
    assert_eq!((written(&site), before), (Vec::new(), site.journal().await.len()));

    let sure = with(&body, "token", look["token"].clone());
    let done = prune(&sure).await.ok();
    assert_eq!(
        (&done["dry_run"], &done["runs"], &done["left"]),
        (&json!(false), &json!(25), &json!(0))
    );
    assert!(done.get("token").is_none() && done["attempts"].as_u64() >= Some(25), "{done}");
    assert_eq!(written(&site).len(), 2, "runs and their attempts");
    assert_eq!(client.get("/v1/runs?queue=work").await.ok()["items"], json!([]));
    let told = site.journal().await.split_off(before);
    let anna = |action: &str| ("anna (api, local)".to_owned(), action.to_owned());
    assert_eq!(told, [anna("prune.start"), anna("prune.end")]);
    prune(&sure).await.problem(422);
}

// OPS-8
#[tokio::test]
async fn a_prune_of_what_changed_meanwhile_is_refused_and_nothing_is_written() {
    let site = Running::full().await;
    let body = json!({ "before": SystemClock.now().to_string() });
    let look = site.client.post("/v1/prune", &with(&body, "dry_run", true)).await.ok();
    site.client.post("/v1/runs/retry", &json!({ "ids": [1] })).await.ok();
    let sure = with(&body, "token", look["token"].clone());
    site.client.post("/v1/prune", &sure).await.problem(409);
    assert_eq!(written(&site), [""; 0]);
}

// OPS-8
#[tokio::test]
async fn a_folder_that_cannot_be_written_to_stops_a_prune_before_anything_is_gone() {
    let site = Running::full().await;
    fs::write(site.folder.path().join("archive"), "no folder").unwrap();
    let body = json!({ "before": SystemClock.now().to_string() });
    let look = site.client.post("/v1/prune", &with(&body, "dry_run", true)).await.ok();
    let sure = with(&body, "token", look["token"].clone());
    let problem = site.client.post("/v1/prune", &sure).await.problem(503);
    let place = site.folder.path().display().to_string();
    assert!(!problem["detail"].as_str().unwrap().contains(&place), "{problem}");
    assert_eq!(site.client.post("/v1/prune", &with(&body, "dry_run", true)).await.ok(), look);
}
