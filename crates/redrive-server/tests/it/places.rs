//! Pages of queues, sources, uploads and pipelines, their charts, and the page of workers.

use jiff::{SignedDuration, Timestamp};
use redrive_engine::{Clock, SystemClock};
use redrive_store::{
    AttemptEnd, AttemptOutcome, MinuteCounts, Presence, UnitKind, WorkerId, WorkerPlace,
    WorkerRecord, attempt_counts,
};

use crate::{
    client::Answer,
    site::{RUNS, Running, VIEWER},
};

#[track_caller]
fn check(page: &Answer, words: &[&str]) {
    assert_eq!(page.status, 200, "{page:?}");
    for words in words {
        assert!(page.body.contains(words), "{words}: {}", page.body);
    }
}

fn worker(id: &str, heard_at: Timestamp) -> Presence {
    Presence::Working(WorkerRecord {
        id: WorkerId(id.to_owned()),
        host: format!("<b>{id}</b>"),
        process: 42,
        version: "9.8.7".to_owned(),
        started_at: heard_at - SignedDuration::from_hours(1),
        heard_at,
        lease_until: heard_at + SignedDuration::from_secs(60),
        draining: false,
        places: vec![WorkerPlace {
            kind: UnitKind::Run,
            place: "later".to_owned(),
            concurrency: 8,
            in_flight: 5,
            claimed: 3,
            restarts: 2,
        }],
    })
}

// HA-4
#[tokio::test(flavor = "multi_thread")]
async fn workers_are_shown_and_what_nobody_serves_is_a_warning() {
    let site = Running::full().await;
    let page = site.client.get("/workers").await;
    check(&page, &["No worker is running", "1 run in queue &quot;later&quot;", "/queues/later"]);
    check(&site.client.get("/").await, &["No worker serves what waits here:"]);

    let now = site.store.now();
    let hour_ago = now - SignedDuration::from_hours(1);
    for worker in [worker("present", now), worker("silent", hour_ago)] {
        site.store.report(&worker, &[], SystemClock.now()).await.unwrap();
    }
    let workers = site.client.get("/v1/workers").await.ok();
    assert_eq!(workers[0]["state"], "not_heard_from");
    assert_eq!((&workers[1]["state"], &workers[1]["claimed"]), (&"present".into(), &3.into()));
    assert_eq!(workers[1]["places"][0]["kind"], "queue");
    let page = site.client.get("/workers").await;
    let words =
        ["&lt;b&gt;present&lt;/b&gt;, process 42", "9.8.7", "✗ not heard from", "✓ present", "↻ 2"];
    check(&page, &words);
    // The overview is counted again once something has changed.
    while site.client.get("/").await.body.contains("No worker serves") {}
    check(&site.client.get("/queues/later").await, &["5 of 8, 3 claimed ahead", "not heard from"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_place_has_a_page_and_lists_lead_to_it() {
    let site = Running::full().await;
    let given_up = RUNS.div_ceil(3);
    let failed = format!("✗ {given_up}");
    check(
        &site.client.get("/queues/work").await,
        &[
            "<h1>Queue work</h1>",
            &failed,
            "href=\"/runs?queue=work&amp;state=given%5Fup\"",
            "the mill stands still",
            "No worker serves it.",
            "Pause the queue …",
            "failed_since=",
        ],
    );
    check(&site.client.get("/sources/ads").await, &["<h1>Source ads</h1>", "✗ 8", "✓ 2"]);
    check(&site.client.get("/uploads/tiles").await, &["<h1>Upload tiles</h1>", "uploaded"]);
    let pipeline = site.client.get("/pipelines/flour").await;
    check(&pipeline, &["<h1>Pipeline flour</h1>", "/pipelines/1", "✗ 9"]);
    for path in ["/queues/wurk", "/sources/wurk", "/uploads/wurk", "/pipelines/wurk"] {
        assert_eq!(site.client.get(path).await.status, 404, "{path}");
    }
    for (list, link) in [
        ("/", "/queues/work"),
        ("/runs?queue=work", "/queues/work"),
        ("/runs/1", "/queues/work"),
        ("/partitions/ads/1234/daily/2026-01-01", "/sources/ads"),
        ("/uploads/1", "/uploads/tiles"),
        ("/pipelines/1", "/pipelines/flour"),
    ] {
        check(&site.client.get(list).await, &[&format!("href=\"{link}\"")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_says_who_paused_it_and_why() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    for queue in ["work", "empty"] {
        let pause = format!("queue={queue}&reason=a+%3Ci%3Erest");
        let paused = browser.submit("/queues/pause", &pause).await;
        let page = site.client.get(paused.header("location").unwrap()).await;
        check(&page, &["Paused", ": a &lt;i&gt;rest", "action=\"/queues/resume\""]);
        assert!(!page.body.contains("Pause the queue"));
    }
    let resumed = browser.submit("/queues/resume", "queue=work").await;
    let page = site.client.get(resumed.header("location").unwrap()).await;
    check(&page, &["Pause the queue"]);
    assert!(!page.body.contains("/queues/resume"), "{}", page.body);
    let guarded = Running::guarded().await;
    let page = guarded.client.bearing(VIEWER).get("/queues/work").await;
    assert_eq!(page.status, 404, "an empty store has no queue");
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_have_the_counts_of_their_range_and_place() {
    let site = Running::full().await;
    let now = SystemClock.now();
    let mut minutes = MinuteCounts::default();
    for hours in [3, 3 * 24, 20 * 24] {
        let ended_at = now - SignedDuration::from_hours(hours);
        let started_at = ended_at - SignedDuration::from_secs(2);
        minutes.add(AttemptEnd { outcome: AttemptOutcome::Retrying, started_at, ended_at });
    }
    let counts = attempt_counts([(UnitKind::Run, "old", &minutes)]);
    site.store.report(&Presence::NoWorker, &counts, now).await.unwrap();
    for (range, retried) in [("1h", 0), ("24h", 1), ("7d", 2), ("30d", 3)] {
        let page = site.client.get(&format!("/queues/old?range={range}")).await;
        check(&page, &[&format!("↻ {retried}")]);
        assert_eq!(page.body.contains("failed_since="), retried > 0, "{range}");
        let path = format!("/v1/activity?range={range}&place=queue:old");
        let activity = site.client.get(&path).await.ok();
        assert_eq!(activity["retrying"], retried, "{activity}");
        let columns = activity["columns"].as_array().unwrap().len();
        assert_eq!(columns, retried, "{activity}");
        assert_eq!(activity["mean_s"].as_f64(), (retried > 0).then_some(2.0));
    }
    // All places: what the site has done, and this.
    let all = site.client.get("/v1/activity?range=30d").await.ok();
    let work = site.client.get("/v1/activity?range=30d&place=queue:work").await.ok();
    assert_eq!(work["good"].as_u64().unwrap() + work["failed"].as_u64().unwrap(), RUNS as u64);
    assert!(all["good"].as_u64() > work["good"].as_u64(), "{all}");
    check(&site.client.get("/?range=7d&place=queue%3Awork").await, &["queue work", "aria-current"]);
    for path in ["/?range=8d", "/?place=work", "/queues/work?range=x", "/v1/activity?place=queue:"]
    {
        assert_eq!(site.client.get(path).await.status, 400, "{path}");
    }
}
