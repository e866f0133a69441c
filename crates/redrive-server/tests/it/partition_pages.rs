//! The page of partitions: calendars of several months, lists over all, and the raw data of one.

use redrive_engine::{
    Call, Engine, Outcome, RawSink, RowWriter, Source, Stopper, Until, extractor_fn,
};
use redrive_store::{AuditContext, Lane, NamedPartition, Operator, PartitionAction};
use serde_json::json;

use crate::{
    client::Answer,
    site::{Running, key},
};

#[track_caller]
fn check(page: &Answer, words: &[&str]) {
    assert_eq!(page.status, 200, "{page:?}");
    for words in words {
        assert!(page.body.contains(words), "{words}: {}", page.body);
    }
}

// OPS-4
#[tokio::test]
async fn a_calendar_shows_several_months_and_its_actions_are_about_them() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    let page = browser.get("/partitions?source=ads&month=2026-02&months=3").await;
    check(
        &page,
        &[
            "<h2>2025-12 to 2026-02</h2>",
            "colspan=\"28\">2026-02</th>",
            "href=\"/partitions?source=ads&amp;month=2025%2D11&amp;months=3\"",
            "href=\"/partitions?source=ads&amp;month=2026%2D05&amp;months=3\"",
            "All matching partitions of 2025-12 to 2026-02",
            "since=2025%2D12%2D01&amp;until=2026%2D02%2D28",
            "aria-label=\"2026-01-01 success\"",
            "value=\"ads/1234/daily/2026-01-02\" form=\"selected\" tabindex=\"-1\"",
        ],
    );
    for (query, allowed) in [("months=5", "1, 2, 3, 6"), ("months=x", "1, 2, 3, 6")] {
        let problem = site.client.get(&format!("/partitions?{query}")).await.problem(400);
        assert_eq!(problem["allowed"], allowed);
    }
    for month in ["0001-01", "9999-12"] {
        let edge = browser.get(&format!("/partitions?month={month}&months=6")).await;
        assert!(edge.status < 500, "{edge:?}");
    }
}

// PAR-8, OPS-4
#[tokio::test]
async fn failed_partitions_of_all_months_are_a_list_whose_rows_are_selected() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    let calendar = browser.get("/partitions?source=ads&month=2026-01").await;
    let failed = "/partitions?source=ads&amp;state=failed&amp;view=list";
    check(&calendar, &[&format!("href=\"{failed}\"")]);
    let list = browser.get(&failed.replace("&amp;", "&")).await;
    check(
        &list,
        &[
            "8 partitions",
            "name=\"list\" value=\"source=ads&amp;state=failed&amp;view=list\"",
            "href=\"/partitions?source=ads&amp;view=list\" title=\"Remove the filter State: failed\"",
            "aria-label=\"Select partition ads/1234/daily/2026-01-02\"",
        ],
    );
    let chosen = "ids=ads%2F1234%2Fdaily%2F2026-01-02&ids=ads%2F1234%2Fdaily%2F2026-01-03&force=true\
                  &list=source%3Dads%26state%3Dfailed%26view%3Dlist";
    let done = browser.submit("/partitions/act/retry", chosen).await;
    let back = "/partitions?source=ads&state=failed&view=list&did=retry%3A2%3A0";
    assert_eq!((done.status, done.header("location")), (303, Some(back)), "{done:?}");
    check(&browser.get(back).await, &["Retry: 2 done.", "6 partitions"]);
}

// PAR-12
#[tokio::test]
async fn the_rows_of_a_partition_are_shown_with_the_one_that_was_rejected() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    let path = "/partitions/ads/1234/daily/2026-01-01";
    check(&browser.get(path).await, &["/partitions/ads/1234/daily/2026%2D01%2D01/rows\""]);
    check(&browser.get(&format!("{path}/rows")).await, &[">1 row<", "{&quot;n&quot;:1}"]);
    assert_eq!(browser.get(&format!("{path}/rows?run=another")).await.status, 404);
    let missing = browser.get("/partitions/ads/1234/daily/2026-03-01/rows").await;
    assert_eq!(missing.status, 404);
    let failed = browser.get("/partitions/ads/1234/daily/2026-01-02/rows").await;
    check(&failed, &["The attempt stored no complete raw data."]);

    reject_line_60(&site).await;
    let page = browser.get("/partitions/bad/1234/daily/2026-01-01/rows").await;
    check(
        &page,
        &[
            "100 rows, of which this is a part",
            "line 60",
            "<tr class=\"rejected\"><td class=\"number\">60 <span class=\"pill bad\">✗ rejected",
            "&lt;b&gt;60",
        ],
    );
    let lines = (1..=100).filter(|line| page.body.contains(&format!(">{line}<")));
    let lines: Vec<u32> = lines.collect();
    let expected = (1..=20).chain([57, 58, 59]).chain([61, 62, 63]).collect::<Vec<u32>>();
    assert_eq!(lines, expected);
}

/// Extracts a partition whose row 60 is broken.
async fn reject_line_60(site: &Running) {
    let source = extractor_fn(|_: Call, rows: RowWriter| async move {
        for n in 1..=100 {
            match n {
                60 => rows.write(b"{\"n\": \"<b>60\"\n").await.unwrap(),
                n => rows.row(&json!({ "n": n })).await.unwrap(),
            }
        }
        Outcome::Answered { value: None, verdict: None }
    });
    let sink = RawSink::folder(site.folder.path().join("raw"));
    let now = site.store.now();
    let by = Operator { actor: "filler".to_owned(), at: now, reason: None };
    let order = AuditContext { by, command: "fill".to_owned(), filter: None, flags: vec![] };
    let day =
        redrive_core::PartitionKey::new("bad", "1234", "daily", key("1234", 1).logical_date());
    let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    let day = [NamedPartition::from(day.unwrap())];
    site.store.change_partitions(&action, &day, &order).await.unwrap();
    let engine = Engine::new(site.store.clone()).with_source(Source::new("bad", source, sink));
    let (_stopper, stop) = Stopper::new();
    engine.run(stop, Until::Drained).await.unwrap();
}
