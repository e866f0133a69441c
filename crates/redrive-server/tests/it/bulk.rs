//! Changing many: a plan changes all that match, and leaves alone what changes meanwhile.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use redrive_core::PlanStatus;
use serde_json::{Value, json};

use crate::{
    client::Client,
    site::{DEAD, ITEMS, Running, fail_more},
};

fn with(body: &Value, name: &str, value: impl Into<Value>) -> Value {
    let mut body = body.clone();
    body[name] = value.into();
    body
}

fn outcomes(answer: &Value, outcome: &str) -> usize {
    let changes = answer["changes"].as_array().unwrap();
    assert_eq!(answer["count"], changes.len());
    outcomes_of(answer, outcome)
}

fn outcomes_of(answer: &Value, outcome: &str) -> usize {
    let changes = answer["changes"].as_array().unwrap();
    changes.iter().filter(|change| change["outcome"] == outcome).count()
}

/// Looks, has it done by a plan, and finds nothing left to do.
async fn look_and_act(client: &Client, path: &str, body: Value, count: usize) {
    let look = client.post(path, &with(&body, "dry_run", true)).await.ok();
    assert_eq!(
        (&look["dry_run"], outcomes(&look, "would_be_done")),
        (&json!(true), count),
        "{look}"
    );
    let again = client.post(path, &with(&body, "dry_run", true)).await.ok();
    assert_eq!(again, look, "looking changes nothing");
    assert_eq!(look["plan"], Value::Null);
    let done = client.post(path, &with(&body, "reason", "it is mended")).await.ok();
    assert_eq!((&done["dry_run"], outcomes(&done, "done")), (&json!(false), count), "{done}");
    if let Some(plan) = done["plan"].as_i64() {
        let plan = client.get(&format!("/v1/plans/{plan}")).await.ok();
        assert_eq!((&plan["changed"], &plan["reason"]), (&json!(count), &json!("it is mended")));
    }
    let again = client.post(path, &body).await;
    match again.status {
        200 => assert_eq!(again.ok()["done"], 0, "{path}"),
        status => assert_eq!(status, 422, "{path}: {again:?}"),
    }
}

// PLN-1
#[tokio::test]
async fn a_plan_changes_all_runs_that_match() {
    let site = Running::full().await;
    look_and_act(&site.client, "/v1/runs/retry", json!({ "queue": "work" }), 9).await;
    let body = json!({ "queue": "work", "category": "a", "status": "discovered" });
    look_and_act(&site.client, "/v1/runs/cancel", body, 5).await;
    let runs = site.client.get("/v1/runs?status=cancelled").await.ok();
    assert_eq!(runs["items"].as_array().unwrap().len(), 5);
}

// PLN-1
#[tokio::test]
async fn a_plan_changes_all_partitions_that_match() {
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
    assert_eq!((outcomes(&done, "done"), &done["plan"]), (1, &Value::Null), "{done}");
}

// PLN-1
#[tokio::test]
async fn a_plan_changes_all_items_and_dead_letters_that_match() {
    let site = Running::full().await;
    let group = json!({ "upload": "tiles", "group": "g" });
    look_and_act(&site.client, "/v1/items/reset", group, ITEMS).await;
    let filter = json!({ "pipeline": "flour", "stage": "grind" });
    look_and_act(&site.client, "/v1/dead-letters/reprocess", filter, DEAD).await;
}

// PLN-3
#[tokio::test]
async fn a_bulk_retry_succeeds_while_units_fail() {
    let site = Running::full().await;
    let (client, stop) = (&site.client, Arc::new(AtomicBool::new(false)));
    let failing = tokio::spawn({
        let (store, stop) = (site.store.clone(), stop.clone());
        async move {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) {
                fail_more(&store).await;
                rounds += 1;
            }
            rounds
        }
    });
    for round in 0..6 {
        let look =
            client.post("/v1/runs/retry", &json!({ "queue": "work", "dry_run": true })).await;
        let done = client.post("/v1/runs/retry", &json!({ "queue": "work" })).await;
        assert!(matches!(done.status, 200 | 422), "round {round}: {look:?} {done:?}");
    }
    stop.store(true, Ordering::Relaxed);
    assert!(failing.await.unwrap() > 0, "units failed meanwhile");
    let plans = client.get("/v1/plans").await.ok();
    let plans = plans["items"].as_array().unwrap();
    assert!(!plans.is_empty() && plans.iter().all(|plan| plan["status"] == "done"), "{plans:?}");
}

// PLN-1, PLN-2, PLN-4
#[tokio::test]
async fn a_kept_plan_is_applied_paused_resumed_aborted_and_undone() {
    let site = Running::full().await;
    let client = &site.client;
    let new = json!({
        "kind": "run", "action": "retry", "queue": "work", "reason": "mended", "pace": "5/h", "canary": 2,
    });
    let draft = client.post("/v1/plans", &new).await;
    assert_eq!(draft.status, 201, "{draft:?}");
    let at = draft.header("location").map(str::to_owned);
    let draft: Value = serde_json::from_str(&draft.body).unwrap();
    assert_eq!((&draft["is_open"], outcomes(&draft, "would_be_done")), (&json!(true), 9));
    let counts = ["done", "left", "count"].map(|name| draft[name].clone());
    assert_eq!(counts, [json!(0), json!(9), json!(9)], "a draft has done nothing: {draft}");
    let path = format!("/v1/plans/{}", draft["plan"]);
    assert_eq!(at.as_ref(), Some(&path));
    let shown = client.get(&path).await.ok();
    assert_eq!(shown["settings"], "canary 2, pace 5/h, abort-if 20%", "the draft keeps them");
    let status = async |order: &str, body: Value| {
        client.post(&format!("{path}/{order}"), &body).await.ok()["status"].clone()
    };
    client.post(&format!("{path}/resume"), &json!({})).await.problem(409);
    client.post(&format!("{path}/apply"), &json!({ "pace": "fast" })).await.problem(400);
    assert_eq!(status("apply", json!({ "pace": "1/h" })).await, "running");
    let paused = client.send("POST", &format!("{path}/pause"), None, "").await;
    assert_eq!(paused.ok()["status"], "paused", "an order needs no body");
    let json_type = Some("application/json");
    let resumed = client.send("POST", &format!("{path}/resume"), json_type, "").await;
    assert_eq!(resumed.ok()["status"], "running", "an empty body may have a type");
    let shown = client.get(&path).await.ok();
    assert_eq!(shown["settings"], "canary 2, pace 1/h, abort-if 20%");
    assert_eq!(shown["units"][0]["units"], 9, "{shown}");
    let units = client.get(&format!("{path}/units?limit=4")).await.ok();
    assert_eq!((units["items"].as_array().unwrap().len(), units["next"].is_string()), (4, true));
    assert!(units["items"][0]["unit"].as_str().unwrap().starts_with("run:"), "{units}");
    assert_eq!(status("abort", json!({ "reason": "not yet" })).await, "aborted");
    client.get("/v1/plans/99").await.problem(404);
    let large = json!({ "queue": "work", "canary": 5000 });
    let refused = client.post("/v1/runs/retry", &large).await.problem(400);
    let why = "the canary (5000) must be smaller than the plan (9 units); nothing was changed";
    assert_eq!(refused["detail"], why);
    let both = json!({ "queue": "work", "dry_run": true, "keep": true });
    client.post("/v1/runs/retry", &both).await.problem(400);
    let paced = json!({ "queue": "work", "canary": 1, "pace": "1/h", "keep": true });
    let kept = client.post("/v1/runs/retry", &paced).await;
    assert_eq!(kept.status, 201, "{kept:?}");
    let shown = client.get(kept.header("location").unwrap()).await.ok();
    assert_eq!(shown["settings"], "canary 1, pace 1/h, abort-if 20%", "{shown}");
    let done = client.post("/v1/runs/retry", &json!({ "queue": "work" })).await.ok();
    let undo = format!("/v1/plans/{}/undo", done["plan"]);
    assert_eq!(client.post(&undo, &json!({})).await.ok()["status"], "undone");
    let none = json!({ "kind": "run", "action": "retry", "queue": "none" });
    client.post("/v1/plans", &none).await.problem(422);
    client.post("/v1/plans", &json!({ "kind": "cow", "action": "milk" })).await.problem(400);
    let note = json!({ "kind": "run", "action": "note", "queue": "work" });
    let refused = client.post("/v1/plans", &note).await.problem(400);
    assert_eq!(refused["allowed"], "retry, cancel", "{refused}");
    let unknown = json!({ "kind": "run", "action": "retry", "cue": "work" });
    let refused = client.post("/v1/plans", &unknown).await.problem(400);
    assert!(refused["allowed"].as_str().unwrap().contains("kind, action"), "{refused}");
    let kept = site.store.plans_by_id(&[redrive_core::PlanId(1)]).await.unwrap();
    assert_eq!(kept[0].status, PlanStatus::Aborted);
}

// PLN-2
#[tokio::test]
async fn a_paced_action_lists_what_it_has_done_and_counts_the_rest() {
    let site = Running::full().await;
    let paced = json!({ "queue": "work", "pace": "1/h" });
    let paced = site.client.post("/v1/runs/retry", &paced).await;
    assert_eq!(paced.status, 202, "{paced:?}");
    let paced = paced.json();
    assert_eq!((&paced["count"], outcomes_of(&paced, "would_be_done")), (&json!(9), 0), "{paced}");
    let sum = paced["done"].as_u64().unwrap() + paced["left"].as_u64().unwrap();
    assert_eq!(sum, 9, "{paced}");
}

#[tokio::test]
async fn named_units_are_changed_one_by_one() {
    let site = Running::full().await;
    let ids = |count: i64| (1..=count).collect::<Vec<i64>>();
    for path in ["/v1/items/reset", "/v1/runs/cancel"] {
        let many = site.client.post(path, &json!({ "ids": ids(21) })).await.ok();
        assert_eq!((&many["count"], &many["plan"]), (&json!(21), &Value::Null), "{path}");
    }
    let twice = site.client.post("/v1/items/reset", &json!({ "ids": [22, 22, 99_999] })).await.ok();
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
    for (look, act, count, button) in [
        (
            "/dead-letters/preview?action=reprocess&pipeline=flour",
            "/dead-letters/act/reprocess",
            DEAD,
            "Reprocess 9 samples now",
        ),
        ("/runs/preview?action=retry&queue=work", "/runs/act/retry", 9, "Retry 9 runs now"),
        (
            "/uploads/preview?action=reset&upload=tiles&group=g",
            "/uploads/act/reset",
            ITEMS,
            "Reset 23 items now",
        ),
        (
            "/partitions/preview?action=retry&source=ads&since=2026-01-01&until=2026-01-31&force=true",
            "/partitions/act/retry",
            8,
            "Retry 8 partitions now",
        ),
    ] {
        let page = browser.get(look).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.body.contains(button), "{look}: {}", page.body);
        assert!(page.body.contains(&format!("action=\"{act}\"")), "{look}");
        let form = fields(&page.body);
        let done = browser.submit(act, &format!("{form}&reason=mended")).await;
        // A reload of the page of the plan posts nothing again.
        assert_eq!(done.status, 303, "{look}: {done:?}");
        let plan = done.header("location").unwrap();
        assert!(plan.starts_with("/plans/"), "{look}: {plan}");
        let plan = browser.get(plan).await;
        assert!(plan.body.contains(&format!(" {count} ")), "{look}: {}", plan.body);
        let again = browser.submit(act, &form).await;
        let nothing = again.header("location").is_some_and(|to| to.contains("/preview?action="));
        assert!(again.status == 422 || nothing, "{look}: {again:?}");
    }
}

/// The hidden fields of a page, as the form that changes something sends them.
fn fields(page: &str) -> String {
    let (_, form) = page.rsplit_once("method=\"post\"").unwrap();
    let inputs = form.split("<input type=\"hidden\" name=\"").skip(1).map(|rest| {
        let (name, rest) = rest.split_once("\" value=\"").unwrap();
        format!("{name}={}", rest.split_once('"').unwrap().0)
    });
    inputs.collect::<Vec<_>>().join("&")
}

// PLN-1, PLN-2, PLN-4
#[tokio::test]
async fn the_dashboard_keeps_plans_and_gives_them_orders() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    let page = browser.get("/runs/preview?action=retry&queue=work").await;
    for field in
        ["name=\"canary\"", "name=\"pace\"", "name=\"ramp\"", "name=\"abort_if\"", "Keep as a plan"]
    {
        assert!(page.body.contains(field), "{field}: {}", page.body);
    }
    let kept =
        browser.submit("/runs/act/retry", &format!("{}&keep=true", fields(&page.body))).await;
    assert_eq!((kept.status, kept.header("location")), (303, Some("/plans/1")), "{kept:?}");
    let plan = async || browser.get("/plans/1").await.body;
    assert!(plan().await.contains("action=\"/plans/1/apply\""));
    let wrong = browser.submit("/plans/1/apply", "canary=2&pace=fast&reason=mended").await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
    for kept in ["value=\"fast\"", "value=\"2\"", "value=\"mended\"", "pace: "] {
        assert!(wrong.body.contains(kept), "{kept}: {}", wrong.body);
    }
    let order = async |order: &str, form: &str| {
        browser.submit(&format!("/plans/1/{order}"), form).await.status
    };
    assert_eq!(order("apply", "canary=2&pace=1%2Fh&ramp=&abort_if=&reason=mended").await, 303);
    assert!(plan().await.contains("canary 2, pace 1/h, abort-if 20%"));
    assert_eq!(order("pause", "reason=").await, 303);
    assert!(plan().await.contains("action=\"/plans/1/resume\""));
    assert_eq!(order("resume", "").await, 303);
    assert_eq!(order("abort", "reason=later").await, 303);
    assert_eq!(order("resume", "").await, 409);
    let page = plan().await;
    assert!(page.contains("aborted by") && page.contains("later"), "{page}");
    assert!(!page.contains("/plans/1/pause"), "an ended plan has no such button");
    let list = browser.get("/plans").await.body;
    assert!(list.contains("href=\"/plans/1\"") && list.contains("Retry 9 runs"), "{list}");
    let skipped = browser.get("/plans/1/units?outcome=skipped").await.body;
    assert!(skipped.contains("No units."), "{skipped}");
}
