//! Changing many: look first, then say yes to exactly what was seen.

use serde_json::{Value, json};

use crate::{
    client::Client,
    site::{DEAD, ITEMS, Running},
};

fn with(body: &Value, name: &str, value: impl Into<Value>) -> Value {
    let mut body = body.clone();
    body[name] = value.into();
    body
}

fn outcomes(answer: &Value, outcome: &str) -> usize {
    let changes = answer["changes"].as_array().unwrap();
    assert_eq!(answer["count"], changes.len());
    changes.iter().filter(|change| change["outcome"] == outcome).count()
}

/// Looks, is refused without the token and with another one, and then has it done.
async fn look_and_act(client: &Client, path: &str, body: Value, count: usize) {
    let look = client.post(path, &with(&body, "dry_run", true)).await.ok();
    assert_eq!(
        (&look["dry_run"], outcomes(&look, "would_be_done")),
        (&json!(true), count),
        "{look}"
    );
    let again = client.post(path, &with(&body, "dry_run", true)).await.ok();
    assert_eq!(again, look, "looking changes nothing");
    client.post(path, &body).await.problem(428);
    client.post(path, &with(&body, "token", "0123")).await.problem(409);
    let sure = with(&with(&body, "token", look["token"].clone()), "reason", "it is mended");
    let done = client.post(path, &sure).await.ok();
    assert_eq!((&done["dry_run"], outcomes(&done, "done")), (&json!(false), count), "{done}");
    let again = client.post(path, &sure).await;
    assert!([409, 422].contains(&again.status), "a token is good for what it saw: {again:?}");
}

#[tokio::test]
async fn many_runs_are_changed_by_the_token_of_a_dry_run() {
    let site = Running::full().await;
    look_and_act(&site.client, "/v1/runs/retry", json!({ "queue": "work" }), 9).await;
    let body = json!({ "queue": "work", "category": "a", "status": "discovered" });
    look_and_act(&site.client, "/v1/runs/cancel", body, 5).await;
    let runs = site.client.get("/v1/runs?status=cancelled").await.ok();
    assert_eq!(runs["items"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn many_partitions_are_changed_by_the_token_of_a_dry_run() {
    let site = Running::full().await;
    let client = &site.client;
    let backfill = json!({ "source": "ads", "customers": ["1234", "5678"], "queries": ["hourly"],
                           "since": "2026-02-01", "until": "2026-02-03" });
    look_and_act(client, "/v1/partitions/backfill", backfill, 6).await;
    let filter = json!({ "source": "ads", "customer_id": "1234", "query_name": "daily",
                         "since": "2026-01-02" });
    look_and_act(client, "/v1/partitions/mark-terminal", filter.clone(), 4).await;
    let look = client.post("/v1/partitions/retry", &with(&filter, "dry_run", true)).await.ok();
    assert_eq!(outcomes(&look, "refused"), 4, "{look}");
    let past = with(&with(&filter, "clear_terminal", true), "force", true);
    look_and_act(client, "/v1/partitions/retry", past, 4).await;
    look_and_act(client, "/v1/partitions/pause", json!({ "all": true, "query_name": "daily" }), 10)
        .await;
    let reprocess = json!({ "source": "ads", "until": "2026-01-01", "force": true });
    look_and_act(client, "/v1/partitions/reprocess", reprocess, 2).await;
    let one = json!({ "ids": ["partition:ads/1234/daily/2026-01-05"] });
    let done = client.post("/v1/partitions/resume", &one).await.ok();
    assert_eq!(outcomes(&done, "done"), 1, "one that is named needs no token: {done}");
}

#[tokio::test]
async fn many_items_and_dead_letters_are_changed_by_the_token_of_a_dry_run() {
    let site = Running::full().await;
    let group = json!({ "upload": "tiles", "group": "g" });
    look_and_act(&site.client, "/v1/items/reset", group, ITEMS).await;
    let filter = json!({ "pipeline": "flour", "stage": "grind" });
    look_and_act(&site.client, "/v1/dead-letters/reprocess", filter, DEAD).await;
}

#[tokio::test]
async fn a_selection_that_changed_meanwhile_refuses_the_token_and_changes_nothing() {
    let site = Running::full().await;
    let client = &site.client;
    for (path, body, first) in [
        ("/v1/runs/retry", json!({ "queue": "work" }), json!({ "ids": [1] })),
        ("/v1/items/reset", json!({ "upload": "tiles", "group": "g" }), json!({ "ids": [1] })),
        ("/v1/dead-letters/reprocess", json!({ "all": true }), json!({ "ids": [1] })),
        (
            "/v1/partitions/pause",
            json!({ "source": "ads" }),
            json!({ "ids": ["ads/1234/daily/2026-01-01"] }),
        ),
    ] {
        let look = client.post(path, &with(&body, "dry_run", true)).await.ok();
        let one = client.post(path, &first).await.ok();
        assert_eq!(outcomes(&one, "done"), 1, "{path}: {one}");
        let before = site.journal().await;
        client.post(path, &with(&body, "token", look["token"].clone())).await.problem(409);
        assert_eq!(site.journal().await, before, "{path}");
    }
    let look =
        client.post("/v1/runs/retry", &json!({ "queue": "work", "dry_run": true })).await.ok();
    let other = json!({ "queue": "work", "status": "error", "token": look["token"] });
    client.post("/v1/runs/cancel", &other).await.problem(409);
}

#[tokio::test]
async fn twenty_that_are_named_one_by_one_need_no_token_and_more_do() {
    let site = Running::full().await;
    let ids = |count: i64| (1..=count).collect::<Vec<i64>>();
    for (path, count) in [("/v1/items/reset", 20), ("/v1/runs/cancel", 20)] {
        let many = json!({ "ids": ids(count + 1) });
        site.client.post(path, &many).await.problem(428);
        let few = site.client.post(path, &json!({ "ids": ids(count) })).await.ok();
        assert_eq!(few["count"], count, "{path}");
    }
    let twice = site.client.post("/v1/items/reset", &json!({ "ids": [21, 21, 99_999] })).await.ok();
    assert_eq!((outcomes(&twice, "done"), outcomes(&twice, "unknown")), (1, 1), "{twice}");
}

// OPS-3
#[tokio::test]
async fn every_change_is_journalled_with_who_did_it_and_looking_is_not() {
    let site = Running::full().await;
    let client = site.client.with("Redrive-Actor", "anna");
    let before = site.journal().await.len();
    let partition = json!({ "ids": ["ads/1234/daily/2026-01-02"], "force": true });
    let steps = [
        ("/v1/runs/retry", json!({ "ids": [1] }), "run.retry"),
        ("/v1/runs/cancel", json!({ "ids": [1] }), "run.cancel"),
        ("/v1/queues/work/pause", json!({ "reason": "tired" }), "queue.pause"),
        ("/v1/queues/work/resume", json!({}), "queue.resume"),
        ("/v1/partitions/retry", partition, "partition.retry"),
        ("/v1/items/reset", json!({ "ids": [1] }), "upload.reset"),
        ("/v1/dead-letters/reprocess", json!({ "ids": [1] }), "sample.reprocess"),
        ("/v1/pipelines/flour/runs", json!({}), "pipeline.start"),
        ("/v1/pipeline-runs/2/cancel", json!({}), "pipeline.cancel"),
        ("/v1/pipeline-runs/2/resume", json!({}), "pipeline.resume"),
    ];
    for (path, body, _) in &steps {
        let answer = client.post(path, body).await;
        assert!([200, 201].contains(&answer.status), "{path}: {answer:?}");
    }
    let written = site.journal().await.split_off(before);
    let actions: Vec<&str> = written.iter().map(|(_, action)| action.as_str()).collect();
    let expected: Vec<&str> = steps.iter().map(|(_, _, action)| *action).collect();
    assert_eq!(actions, expected);
    assert!(written.iter().all(|(actor, _)| actor == "anna (api, local)"), "{written:?}");
    let all = json!({ "source": "ads", "dry_run": true });
    client.post("/v1/partitions/pause", &all).await.ok();
    client.browsing().get("/partitions/preview?action=pause&source=ads").await;
    client.get("/runs/preview?action=retry&queue=work").await;
    assert_eq!(site.journal().await.len(), before + steps.len());
}

#[tokio::test]
async fn the_dashboard_previews_what_many_would_become_and_does_it_when_confirmed() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    for (look, act, count) in [
        (
            "/dead-letters/preview?action=reprocess&pipeline=flour",
            "/dead-letters/act/reprocess",
            DEAD,
        ),
        ("/runs/preview?action=retry&queue=work", "/runs/act/retry", 9),
        ("/uploads/preview?action=reset&upload=tiles&group=g", "/uploads/act/reset", ITEMS),
        (
            "/partitions/preview?action=retry&source=ads&since=2026-01-01&until=2026-01-31&force=true",
            "/partitions/act/retry",
            8,
        ),
    ] {
        let page = browser.get(look).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.body.contains(&format!("Confirm: {count}")), "{look}: {}", page.body);
        assert!(page.body.contains(&format!("action=\"{act}\"")), "{look}");
        let form = fields(&page.body);
        let done = browser.submit(act, &format!("{form}&reason=mended")).await;
        assert_eq!(done.status, 200, "{look}: {done:?}");
        assert!(done.body.contains(&format!("{count} done")), "{look}: {}", done.body);
        let again = browser.submit(act, &form).await;
        assert!([409, 422].contains(&again.status), "{look}: {again:?}");
    }
}

/// The hidden fields of a page, as its form sends them.
fn fields(page: &str) -> String {
    let inputs = page.split("<input type=\"hidden\" name=\"").skip(1).map(|rest| {
        let (name, rest) = rest.split_once("\" value=\"").unwrap();
        format!("{name}={}", rest.split_once('"').unwrap().0)
    });
    inputs.collect::<Vec<_>>().join("&")
}
