//! Lists on pages: their order, their filters, and actions on rows that are selected.

use redrive_store::NewRun;
use serde_json::json;

use crate::{
    client::{Answer, Client},
    site::{Running, VIEWER, guarded_access},
};

/// A server with so many runs of a queue.
async fn with_runs(count: usize) -> Running {
    let site = Running::empty().await;
    let now = jiff::Timestamp::UNIX_EPOCH;
    let runs: Vec<NewRun> =
        (0..count).map(|n| NewRun::new("work", &json!(n), now).unwrap()).collect();
    site.store.submit_runs(&runs, now).await.unwrap();
    site
}

/// The keys of the rows of a page.
fn rows(page: &Answer) -> Vec<i64> {
    assert_eq!(page.status, 200, "{page:?}");
    let keys = page.body.split("data-key=\"").skip(1);
    keys.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
}

/// Follows a link by its words.
async fn follow(client: &Client, page: &Answer, words: &str) -> Answer {
    let before = page.body.split(words).next().unwrap();
    assert!(before.len() < page.body.len(), "{words}: {}", page.body);
    let (_, link) = before.rsplit_once("href=\"").unwrap();
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    client.get(&link).await
}

fn range(first: i64, last: i64) -> Vec<i64> {
    if first <= last { (first..=last).collect() } else { (last..=first).rev().collect() }
}

#[tokio::test]
async fn a_list_has_the_newest_first_and_goes_both_ways() {
    let site = with_runs(250).await;
    let browser = site.client.browsing();
    let first = browser.get("/runs").await;
    assert_eq!(rows(&first), range(250, 151));
    assert!(!first.body.contains("Previous page"), "{}", first.body);
    let second = follow(&browser, &first, "Next page").await;
    assert_eq!(rows(&second), range(150, 51));
    let third = follow(&browser, &second, "Next page").await;
    assert_eq!(rows(&third), range(50, 1));
    assert!(!third.body.contains("Next page"), "{}", third.body);
    assert_eq!(rows(&follow(&browser, &third, "← Previous page").await), range(150, 51));
    let last = follow(&browser, &first, "Last »").await;
    assert_eq!(rows(&last), range(100, 1));
    let before = follow(&browser, &last, "← Previous page").await;
    assert_eq!(rows(&before), range(200, 101));
    // Fewer than a page are before it.
    assert_eq!(rows(&follow(&browser, &before, "← Previous page").await), range(250, 151));
    assert_eq!(rows(&follow(&browser, &last, "« First").await), range(250, 151));

    let oldest = follow(&browser, &first, "title=\"Reverse the order\"").await;
    assert_eq!(rows(&oldest), range(1, 100));
    assert!(oldest.body.contains("aria-sort=\"ascending\""), "{}", oldest.body);
    assert_eq!(rows(&follow(&browser, &oldest, "Last »").await), range(151, 250));
    assert_eq!(rows(&browser.get("/runs?after=3").await), [2, 1]);
    assert_eq!(browser.get("/runs?order=up").await.status, 400);
}

#[tokio::test]
async fn a_list_says_how_many_there_are() {
    let site = with_runs(120).await;
    let browser = site.client.browsing();
    let few = browser.get("/runs?after=41").await;
    assert!(few.body.contains("more than 40 runs") || few.body.contains("120 runs"));
    // The overview counts, and lists know its counts.
    browser.get("/").await;
    assert!(browser.get("/runs").await.body.contains(">120 runs<"));
    assert!(browser.get("/runs?state=discovered&queue=work").await.body.contains(">120 runs<"));
    assert!(browser.get("/runs?queue=nothing").await.body.contains(">0 runs<"));
    // Nothing counts these.
    let others = browser.get("/runs?category=").await;
    assert!(others.body.contains("120 runs"), "an empty filter is none: {}", others.body);
}

#[tokio::test]
async fn filters_are_shown_and_removed_one_by_one() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    let page = browser.get("/runs?queue=work&state=given_up&error=mill&order=asc").await;
    for (chip, others) in [
        ("Remove the filter Queue: work", "/runs?error=mill&amp;state=given%5Fup&amp;order=asc"),
        ("Remove the filter State: given up", "/runs?queue=work&amp;error=mill&amp;order=asc"),
        (
            "Remove the filter Error text: mill",
            "/runs?queue=work&amp;state=given%5Fup&amp;order=asc",
        ),
    ] {
        let link = format!("href=\"{others}\" title=\"{chip}\"");
        assert!(page.body.contains(&link), "{link}: {}", page.body);
    }
    let removed = follow(&browser, &page, "title=\"Remove the filter Error text").await;
    assert_eq!(rows(&removed), rows(&page));
    assert!(!removed.body.contains("Remove the filter Error"));
    let nothing = browser.get("/runs?queue=nothing").await;
    assert!(nothing.body.contains("No runs match. <a href=\"/runs\">Remove the filters</a>"));
}

#[tokio::test]
async fn the_search_box_finds_units_by_id_and_errors_by_text() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    for (search, found) in [
        ("/runs?search=17", "/runs/17"),
        ("/runs?search=run%3A17&queue=work", "/runs/17"),
        ("/runs?search=mill&queue=work&order=asc", "/runs?queue=work&order=asc&error=mill"),
        ("/uploads?search=item%3A3", "/uploads/3"),
        ("/dead-letters?search=stands+still", "/dead-letters?error=stands%20still"),
        ("/pipelines?search=1", "/pipelines/1"),
        (
            "/partitions?search=ads%2F1234%2Fdaily%2F2026-01-02",
            "/partitions/ads/1234/daily/2026%2D01%2D02",
        ),
        ("/partitions?search=mill&month=2026-01", "/partitions?month=2026%2D01&error=mill"),
    ] {
        let answer = browser.get(search).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some(found)), "{search}");
    }
    assert_eq!(browser.get("/pipelines?search=mill").await.status, 404);
}

// OPS-3, OPS-4
#[tokio::test]
async fn an_action_on_selected_rows_is_previewed_and_leads_back_to_their_list() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    let list = browser.get("/runs?queue=work&state=given_up").await;
    let ids = rows(&list);
    assert!(ids.len() > 3, "{ids:?}");
    for id in &ids {
        let name =
            format!("name=\"ids\" value=\"{id}\" form=\"selected\" aria-label=\"Select run {id}\"");
        assert!(list.body.contains(&name), "{name}: {}", list.body);
    }
    let query = "queue=work&amp;state=given%5Fup";
    assert!(list.body.contains(&format!("name=\"list\" value=\"{query}\"")), "{}", list.body);
    let chosen = format!("ids={}&ids={}&list=queue%3Dwork%26state%3Dgiven_up", ids[0], ids[1]);
    let preview = browser.get(&format!("/runs/preview?action=retry&{chosen}")).await;
    let title = format!("Retry 2 runs: {}, {}", ids[0], ids[1]);
    for words in
        [&title, "href=\"/runs?queue=work&amp;state=given_up\"", "with a new count of attempts."]
    {
        assert!(preview.body.contains(words), "{words}: {}", preview.body);
    }
    let done = browser.submit("/runs/act/retry", &chosen).await;
    let back = "/runs?queue=work&state=given_up&did=retry%3A2%3A0";
    assert_eq!((done.status, done.header("location")), (303, Some(back)));
    let list = browser.get(back).await;
    assert!(list.body.contains("Retry: 2 done."), "{}", list.body);
    assert_eq!(rows(&list), ids[2..]);
    // Again: nothing is done, and the preview says why.
    let again = browser.submit("/runs/act/retry", &chosen).await;
    let preview = browser.get(again.header("location").unwrap()).await;
    assert!(preview.body.contains("Nothing would be changed."), "{}", preview.body);
    assert_eq!(browser.get("/runs/preview?action=retry&list=queue%3Dwork").await.status, 400);
    let cancel = browser.get(&format!("/runs/preview?action=cancel&{chosen}")).await;
    assert!(cancel.body.contains("class=\"primary danger\""), "{}", cancel.body);
}

#[tokio::test]
async fn who_may_only_read_selects_nothing() {
    let site = Running::with(guarded_access(), Default::default()).await;
    let now = jiff::Timestamp::UNIX_EPOCH;
    site.store.submit_runs(&[NewRun::new("work", &json!(1), now).unwrap()], now).await.unwrap();
    let page = site.client.browsing().bearing(VIEWER).get("/runs").await;
    assert_eq!(rows(&page), [1]);
    assert!(!page.body.contains("name=\"ids\"") && !page.body.contains("id=\"selected\""));
}

#[tokio::test]
async fn a_list_without_units_says_how_to_begin() {
    let site = Running::empty().await;
    let browser = site.client.browsing();
    for (path, command) in [
        ("/runs", "redrive runs submit --queue"),
        ("/uploads", "redrive uploads add --upload"),
        ("/partitions", "redrive state backfill --source"),
        ("/pipelines", "redrive pipeline run"),
        ("/dead-letters", "no sample has failed for good"),
    ] {
        let page = browser.get(path).await;
        assert!(page.body.contains(command), "{path}: {}", page.body);
    }
}
