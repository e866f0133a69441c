//! Lists in pages: every row once, and nothing that is not understood.

use redrive_store::{JournalEntry, NewRun, Operator};
use serde_json::{Value, json};

use crate::{
    client::Client,
    site::{DEAD, ITEMS, RUNS, Running},
};

/// The rows of a list, taken `limit` at a time.
async fn walk(client: &Client, path: &str, limit: usize) -> Vec<Value> {
    let (mut rows, mut after) = (Vec::new(), String::new());
    loop {
        let sign = if path.contains('?') { '&' } else { '?' };
        let page = client.get(&format!("{path}{sign}limit={limit}{after}")).await.ok();
        let mut items = page["items"].as_array().unwrap().clone();
        assert!(items.len() <= limit, "{path}");
        // Words such as "in 4m59s" change by the second.
        let fields = items.iter_mut().filter_map(serde_json::Value::as_object_mut);
        fields.for_each(|fields| _ = fields.remove("why"));
        rows.extend(items);
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", next.replace(' ', "%20")),
            None => return rows,
        }
    }
}

#[tokio::test]
async fn every_row_of_every_list_comes_once_whatever_the_size_of_the_page() {
    let site = Running::full().await;
    for (path, count) in [
        ("/v1/runs", RUNS + 1),
        ("/v1/runs?queue=work&status=error", RUNS.div_ceil(3)),
        ("/v1/runs?queue=work&category=a&status=passed", 8),
        ("/v1/partitions", 10),
        ("/v1/partitions?status=failed", 8),
        ("/v1/partitions?state=terminal&since=2026-01-03", 0),
        ("/v1/partitions?source=ads&customer_id=1234&query_name=daily&until=2026-01-03", 3),
        ("/v1/partitions/ads/1234/daily/2026-01-02/history", 1),
        ("/v1/readable", 2),
        ("/v1/readable?source=ads&customer_id=1234&query_name=daily&until=2026-01-03", 1),
        ("/v1/readable?since=2026-01-02", 0),
        ("/v1/items", ITEMS),
        ("/v1/items?upload=tiles&group=g&status=upload_giveup", ITEMS),
        ("/v1/items?status=pending", 0),
        ("/v1/pipeline-runs", 1),
        ("/v1/pipeline-runs?pipeline=flour&status=running", 0),
        ("/v1/dead-letters", DEAD),
        ("/v1/dead-letters?stage=grind&code=400&error=stands", DEAD),
        ("/v1/dead-letters?error=nothing%20like%20it", 0),
    ] {
        let all = walk(&site.client, path, 10_000).await;
        assert_eq!(all.len(), count, "{path}");
        for limit in [1, 2, 7, count.max(1)] {
            assert_eq!(walk(&site.client, path, limit).await, all, "{path} by {limit}");
        }
    }
    let journal = walk(&site.client, "/v1/journal", 10_000).await;
    assert!(journal.len() > DEAD, "{journal:?}");
    assert_eq!(walk(&site.client, "/v1/journal", 3).await, journal);
}

#[tokio::test]
async fn a_parameter_that_is_not_understood_is_refused_instead_of_selecting_too_much() {
    let site = Running::full().await;
    for path in [
        "/v1/runs",
        "/v1/partitions",
        "/v1/partitions/ads/1234/daily/2026-01-02/history",
        "/v1/gaps",
        "/v1/items",
        "/v1/pipeline-runs",
        "/v1/pipeline-runs/1/output",
        "/v1/dead-letters",
        "/v1/dead-letters/causes",
        "/v1/journal",
        "/runs",
        "/partitions",
        "/uploads",
        "/pipelines",
        "/dead-letters",
        "/journal",
    ] {
        for asked in ["quue=work", "after=x&quue=1", "limit=0", "limit=10001", "limit=-1"] {
            site.client.get(&format!("{path}?{asked}")).await.problem(400);
        }
    }
    for (asked, allowed) in [
        ("/v1/runs?status=broken", "error"),
        ("/v1/partitions?status=broken", "failed"),
        ("/v1/partitions?since=yesterday", "YYYY-MM-DD"),
        ("/v1/items?status=broken", "upload_giveup"),
        ("/v1/pipeline-runs?status=broken", "aborted"),
        ("/v1/dead-letters?newest=true&limit=1001", "1 to 1000"),
        ("/v1/why?unit=run:x", "run:ID"),
        ("/partitions?month=2026-1", "YYYY-MM"),
    ] {
        let problem = site.client.get(asked).await.problem(400);
        assert!(problem["allowed"].as_str().unwrap().contains(allowed), "{problem}");
    }
}

#[tokio::test]
async fn lists_omit_payloads_unless_asked_and_a_page_of_large_ones_ends_early() {
    let site = Running::empty().await;
    let (now, payload) = (jiff::Timestamp::UNIX_EPOCH, json!("x".repeat(1_000_000)));
    let runs: Vec<NewRun> = (0..12).map(|_| NewRun::new("q", &payload, now).unwrap()).collect();
    site.store.submit_runs(&runs, now).await.unwrap();
    let page = site.client.get("/v1/runs?limit=10000").await.ok();
    let rows = page["items"].as_array().unwrap();
    assert_eq!((rows.len(), &page["next"]), (12, &Value::Null));
    assert!(rows.iter().all(|run| run.get("payload").is_none() && run.get("result").is_none()));
    let answer = site.client.get("/v1/runs?limit=10000&data=true").await;
    assert!(answer.body.len() < 6_000_000, "{}", answer.body.len());
    let page = answer.ok();
    assert!(page["next"].is_string(), "{}", page["next"]);
    assert_eq!(page["items"][0]["payload"], payload);
    assert_eq!(walk(&site.client, "/v1/runs?data=true", 10_000).await.len(), 12);
    assert_eq!(site.client.get("/v1/runs/1").await.ok()["payload"], payload);
    assert!(site.client.browsing().get("/runs").await.body.len() < 100_000);
}

#[tokio::test]
async fn a_list_of_long_messages_ends_early_too() {
    let site = Running::empty().await;
    let reason = "x".repeat(8_000);
    for number in 0..700 {
        let by = Operator {
            actor: "filler".to_owned(),
            at: jiff::Timestamp::UNIX_EPOCH,
            reason: Some(reason.clone()),
        };
        site.store.pause_queue(&format!("q{number}"), &by).await.unwrap();
    }
    let answer = site.client.get("/v1/journal?limit=10000").await;
    assert!(answer.body.len() < 5_000_000, "{}", answer.body.len());
    assert!(answer.ok()["next"].is_string());
    assert_eq!(walk(&site.client, "/v1/journal", 10_000).await.len(), 700);
}

#[tokio::test]
async fn the_journal_of_large_edits_comes_in_pages_and_an_explanation_shortens_it() {
    let site = Running::empty().await;
    assert_eq!(site.client.post("/v1/runs", &json!({ "queue": "q" })).await.status, 201);
    let old = "x".repeat(1_000_000);
    let edit = JournalEntry {
        at: jiff::Timestamp::UNIX_EPOCH,
        actor: "ann".to_owned(),
        action: "run.edit".to_owned(),
        unit: Some("run:1".to_owned()),
        filter: None,
        details: json!({ "payload": old, "reason": "a typo" }).to_string(),
        dedupe_key: None,
    };
    site.store.append_journal(&vec![edit; 9]).await.unwrap();
    let answer = site.client.get("/v1/journal?limit=10000").await;
    assert!(answer.body.len() < 6_000_000, "{}", answer.body.len());
    assert_eq!(answer.ok()["items"][0]["details"]["payload"], old);
    for path in ["/v1/journal", "/v1/journal?unit=run:1"] {
        assert_eq!(walk(&site.client, path, 10_000).await.len(), 9, "{path}");
    }
    let page = site.client.browsing().get("/journal").await.body;
    assert!(page.len() < 100_000 && page.contains("Next page"), "{}", page.len());
    let why = site.client.get("/v1/why?unit=run:1").await;
    assert!(why.body.len() < 100_000, "{}", why.body.len());
    let journal = why.ok()["journal"].clone();
    assert_eq!(journal.as_array().unwrap().len(), 9);
    assert_eq!(journal[8]["details"]["reason"], "a typo");
    let start = journal[8]["details"]["payload"].as_str().unwrap();
    assert!(start.starts_with("\"xxx") && start.ends_with("x… (1000002 bytes)"), "{start}");
}
