//! Pages of plans: previews with options, outcomes over time, orders, and where plans are mentioned.

use redrive_core::{PlanBatch, PlanId};
use redrive_engine::{Clock, SystemClock};
use redrive_store::{LeaseRef, PlanClaim, WorkerId};
use serde_json::json;

use crate::{
    client::Answer,
    site::{Running, fail_more},
};

/// Carries out plans as their executor does, step by step.
struct Executor<'a>(&'a Running);

impl Executor<'_> {
    async fn claim(&self, id: PlanId) -> LeaseRef {
        let now = self.0.store.now();
        let claim = PlanClaim {
            owner: WorkerId("executor".to_owned()),
            lease_until: now + jiff::SignedDuration::from_hours(1),
            now,
            only: Some(id),
            except: Vec::new(),
            limit: 1,
        };
        self.0.store.claim_plans(&claim).await.unwrap().pop().expect("a plan with work").lease()
    }

    /// Changes so many units, lets them fail, and notes that they did.
    async fn fail(&self, lease: LeaseRef, units: u32) {
        self.step(lease, units).await;
        fail_more(&self.0.store).await;
        let now = SystemClock.now();
        self.0.store.settle_plan(lease, 0, 1_000, now).await.unwrap().expect("held");
    }

    async fn step(&self, lease: LeaseRef, units: u32) {
        let plan = self.0.store.plans_by_id(&[PlanId(lease.id)]).await.unwrap().pop().unwrap();
        let position = plan.counts.position();
        let interval = std::time::Duration::ZERO;
        let batch = PlanBatch { units, position, interval, ramp_from: None };
        let stepped = self.0.store.step_plan(lease, &batch, SystemClock.now()).await.unwrap();
        assert_eq!(stepped.expect("held").counts.position(), position + u64::from(units));
    }
}

#[track_caller]
fn check(page: &Answer, words: &[&str]) {
    assert_eq!(page.status, 200, "{page:?}");
    for words in words {
        assert!(page.body.contains(words), "{words}: {}", page.body);
    }
}

/// A server with a draft over the nine runs that were given up.
async fn with_draft() -> Running {
    let site = Running::full().await;
    let draft = json!({ "kind": "run", "action": "retry", "queue": "work" });
    assert!(site.client.post("/v1/plans", &draft).await.status < 300);
    site
}

// PLN-2, PLN-4, PLN-5
#[tokio::test]
async fn the_page_of_a_plan_shows_its_canary_and_its_outcomes_over_time() {
    let site = with_draft().await;
    let browser = site.client.browsing();
    check(
        &browser.get("/plans/1").await,
        &["Apply to 9 runs", "All at once: 9 runs", "9</span> to go"],
    );
    let applied = browser.submit("/plans/1/apply", "canary=3&pace=1%2Fs&reason=mended").await;
    assert_eq!(applied.status, 303, "{applied:?}");
    let executor = Executor(&site);
    let lease = executor.claim(PlanId(1)).await;
    executor.fail(lease, 3).await;
    let page = browser.get("/plans/1").await;
    check(
        &page,
        &[
            "3 units</a>: 0 recovered, 3 failed again",
            "✗ failed",
            "3 failed of another cause.\"",
            "up to 3 units in",
            "As a table",
            "Abort: leave 6 runs unchanged",
            "button class=\"danger\"",
        ],
    );
    assert_eq!(page.body.matches("name=\"reason\"").count(), 1, "{}", page.body);
    let plan = site.client.get("/v1/plans/1").await.ok();
    assert_eq!(plan["canary_units"]["failed_again"], 3, "{plan}");
    assert_eq!(plan["canary_units"]["verdict"], "failed", "{plan}");
    let ended = plan["outcomes"].as_array().unwrap().iter();
    assert_eq!(ended.filter_map(|it| it["other_cause"].as_u64()).sum::<u64>(), 3, "{plan}");
    let units = browser.get("/plans/1/units?canary=true").await;
    assert_eq!(units.body.matches("href=\"/runs/").count(), 3, "{}", units.body);
    assert_eq!(browser.get("/plans/1/units").await.body.matches("href=\"/runs/").count(), 9);

    assert_eq!(browser.submit("/plans/1/abort", "reason=still+down").await.status, 303);
    check(&browser.get("/plans/1").await, &["next warn", "still down", "6</span> left unchanged"]);
}

// PLN-4
#[tokio::test]
async fn a_plan_is_found_where_its_units_are() {
    let site = with_draft().await;
    let browser = site.client.browsing();
    assert!(!browser.get("/").await.body.contains("Plan 1"), "a draft does not run");
    check(&browser.get("/plans?status=draft").await, &["Retry 9 runs", "queue work"]);
    check(&browser.get("/plans?status=running").await, &["No plans."]);
    assert_eq!(browser.submit("/plans/1/apply", "pace=1%2Fh").await.status, 303);
    let lease = Executor(&site).claim(PlanId(1)).await;
    Executor(&site).step(lease, 1).await;
    check(
        &browser.get("/").await,
        &["Running plans", "Plan 1: Retry 9 runs", "1 pending, 8 to go"],
    );
    let run = site.client.get("/v1/plans/1/units?limit=1").await.ok()["items"][0]["id"].to_string();
    check(&browser.get(&format!("/runs/{run}")).await, &["href=\"/plans/1\""]);

    let undone = browser.submit("/plans/1/undo", "reason=a+mistake").await;
    assert_eq!(undone.status, 303, "{undone:?}");
    check(&browser.get("/plans/1").await, &["Undone by", "a mistake"]);

    let causes = site.client.get("/v1/causes?kind=run").await.ok();
    let cause = causes[0]["fingerprint"].as_str().unwrap();
    check(&browser.get(&format!("/causes/{cause}")).await, &["keep=true", "Plan …"]);
    let kept = format!("cause={cause}&keep=true");
    assert_eq!(browser.submit("/runs/act/retry", &kept).await.header("location"), Some("/plans/2"));
    check(&browser.get(&format!("/causes/{cause}")).await, &["Plans for this cause", "Plan 2: "]);
    let words = format!("cause {} ", &cause[..8]);
    check(&browser.get("/plans/2").await, &[&words, "the mill stands still"]);
    assert_eq!(browser.submit("/plans/2/abort", "reason=no").await.status, 303);
    check(&browser.get("/plans/2").await, &["Discarded: aborted by"]);
}

// PLN-2
#[tokio::test]
async fn a_draft_has_the_settings_with_which_it_was_kept() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    let kept = "queue=work&keep=true&canary=3&pace=1%2Fs&abort_if=30%25";
    assert_eq!(browser.submit("/runs/act/retry", kept).await.header("location"), Some("/plans/1"));
    let prefilled = [
        "name=\"canary\" min=\"1\" value=\"3\"",
        "value=\"1/s\"",
        "value=\"30%\"",
        "3 runs first; then about 9s for the rest at this pace.",
    ];
    check(&browser.get("/plans/1").await, &prefilled);
    let large = browser.submit("/uploads/act/reset", "upload=tiles&canary=50").await;
    assert_eq!(large.status, 400, "{large:?}");
    assert!(large.body.contains("role=\"alert\">the canary (50)"), "{}", large.body);
}

// PLN-1, PAR-8
#[tokio::test]
async fn a_preview_says_what_is_refused_and_offers_what_allows_it() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    let failed = json!({ "source": "ads", "state": "failed", "reason": "closed" });
    site.client.post("/v1/partitions/mark-terminal", &failed).await.ok();
    let path = "/partitions/preview?action=retry&source=ads&since=2026-01-01&until=2026-01-31";
    let page = browser.get(path).await;
    check(
        &page,
        &[
            "Retry partitions: source ads, 2026-01-01 to 2026-01-31",
            "8 refused</span>",
            "type=\"checkbox\" name=\"force\" value=\"true\">",
            "type=\"checkbox\" name=\"clear_terminal\" value=\"true\">",
            "Nothing would be changed.",
        ],
    );
    assert!(!page.body.contains("--clear"), "a page has no flags: {}", page.body);
    check(
        &browser.get(&format!("{path}&clear_terminal=true&force=true")).await,
        &[
            "Retry 8 partitions: source ads",
            "name=\"force\" value=\"true\" checked>",
            "Retry 8 partitions now",
        ],
    );
}

// PLN-2
#[tokio::test]
async fn a_preview_keeps_what_was_typed_and_estimates_the_time() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    let path = "/runs/preview?action=retry&queue=work";
    check(
        &browser.get(&format!("{path}&pace=1%2Fs")).await,
        &["About 9s at this pace.", "value=\"1/s\""],
    );
    let wrong =
        browser.submit("/runs/act/retry", "queue=work&pace=abc&canary=2&reason=mended").await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
    for kept in [
        "role=\"alert\"",
        "pace: ",
        "value=\"abc\"",
        "value=\"2\"",
        "value=\"mended\"",
        "value=\"work\"",
    ] {
        assert!(wrong.body.contains(kept), "{kept}: {}", wrong.body);
    }
    assert_eq!(site.client.get("/v1/plans").await.ok()["items"], json!([]));
    // A plan of many units is proposed with a canary.
    let careful = browser.get("/uploads/preview?action=reset&upload=tiles&keep=true").await;
    check(&careful, &["name=\"canary\" min=\"1\" value=\"10\"", "Keep as a plan"]);
    // Enter in a field presses the first button of a form, which must change nothing; the purpose of the page stays.
    let form = &careful.body[careful.body.find("/uploads/act/reset").unwrap()..];
    let first = &form[form.find("<button").unwrap()..];
    assert!(first.starts_with("<button type=\"submit\" name=\"action\""), "{first}");
    let path = "/uploads/preview?action=reset&upload=tiles&pace=1%2Fs&as_plan=true";
    let estimated = browser.get(path).await;
    check(&estimated, &["class=\"primary\" type=\"submit\" name=\"keep\""]);
    let kept = "upload=tiles&pace=1%2Fs&as_plan=true&keep=true";
    assert_eq!(browser.submit("/uploads/act/reset", kept).await.status, 303);
    let direct = browser.get("/uploads/preview?action=reset&upload=tiles").await;
    check(&direct, &["name=\"canary\" min=\"1\" value=\"\"", "All at once: 23 items"]);
}

#[tokio::test]
async fn actions_on_partitions_are_about_the_days_that_were_asked_for() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    let page =
        browser.get("/partitions?source=ads&since=2026-01-02&until=2026-04-30&month=2026-01").await;
    check(&page, &["All matching partitions from 2026-01-02 to 2026-04-30"]);
    let range = "source=ads&amp;since=2026%2D01%2D02&amp;until=2026%2D04%2D30";
    check(&page, &[&format!("/partitions/preview?action=retry&amp;{range}\"")]);
    let month = browser.get("/partitions?source=ads&month=2026-01").await;
    check(&month, &["All matching partitions of 2026-01", "until=2026%2D01%2D31"]);
}
