//! Reading partitions: exact filters, pages, days and counts.

use redrive_core::{
    DateRange, LogicalDate, MAX_KEY_BYTES, PartitionId, PartitionKey, PartitionState,
    PartitionStatus,
};

use super::{
    Fixture,
    partition_samples::{accepted, claim_of, day, key, rejected},
    samples::at,
};
use redrive_store::{
    PageLimit, PageOrder, PartitionClaim, PartitionCount, PartitionSeries, Selection,
};

fn date(text: &str) -> LogicalDate {
    text.parse().expect("a day")
}

fn new_key(source: &str, customer: &str, query: &str, day: &str) -> PartitionKey {
    PartitionKey::new(source, customer, query, date(day)).expect("a key")
}

impl Fixture {
    /// The keys that match, read in pages of three, which are the same in both orders.
    async fn listed(&self, filter: &Selection) -> Vec<PartitionKey> {
        let keys = self.listed_in(filter, PageOrder::Ascending).await;
        assert!(keys.is_sorted(), "{keys:?}");
        let mut backwards = self.listed_in(filter, PageOrder::Descending).await;
        backwards.reverse();
        assert_eq!(keys, backwards, "{filter:?}");
        keys
    }

    async fn listed_in(&self, filter: &Selection, order: PageOrder) -> Vec<PartitionKey> {
        let (limit, mut keys) = (PageLimit::from(3).ordered(order), Vec::new());
        loop {
            let page = self.store.partitions_page(filter, keys.last(), limit).await.expect("read");
            assert!(page.len() <= 3);
            if page.is_empty() {
                return keys;
            }
            keys.extend(page.into_iter().map(|record| record.key));
            assert!(keys.len() <= 10_000, "a page is read again");
        }
    }
}

/// Keys that a careless filter, path or pattern would mix up.
fn hostile_keys() -> Vec<PartitionKey> {
    let long = "x".repeat(MAX_KEY_BYTES);
    let wide = "\u{10ffff}".repeat(MAX_KEY_BYTES / 4);
    let parts = [
        "a",
        "A",
        "a ",
        "../..",
        ".",
        "%",
        "_",
        "%a",
        "a%",
        "CON",
        "a/b",
        "a\\b",
        "'; --",
        "\u{e9}",
        "e\u{301}",
        "\x1b[2J",
        "\n",
        "日本語",
        &long,
        &wide,
    ];
    let mut keys: Vec<PartitionKey> = parts
        .iter()
        .flat_map(|part| {
            [
                new_key(part, "c", "q", "2026-03-01"),
                new_key("s", part, "q", "2026-03-01"),
                new_key("s", "c", part, "2026-03-01"),
            ]
        })
        .collect();
    for day in ["0001-01-01", "2024-02-29", "2025-12-31", "2026-01-01", "9999-12-31"] {
        keys.push(new_key("s", "c", "q", day));
    }
    keys
}

// PAR-1, PAR-8
pub async fn hostile_keys_are_kept_apart_and_matched_exactly(f: &Fixture) {
    let keys = hostile_keys();
    f.ask_for(&keys, at(0)).await;
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(f.listed(&Selection::default()).await, sorted, "in the order of the keys");
    for key in &keys {
        let exact = Selection {
            source: Some(key.source().to_owned()),
            customer_id: Some(key.customer_id().to_owned()),
            query_name: Some(key.query_name().to_owned()),
            ..Selection::default()
        }
        .on(key.logical_date());
        assert_eq!(f.listed(&exact).await, std::slice::from_ref(key));
        assert_eq!(f.partition(key).await.key, *key);
        assert_eq!(f.actions_on(key).await, ["partition.backfill"]);
    }
    let claim = PartitionClaim { source: "%".to_owned(), ..claim_of(100, 0, at(1)) };
    let claimed = f.claim_partitions(&claim).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].key, new_key("%", "c", "q", "2026-03-01"));
}

// PAR-8
pub async fn every_filter_gives_what_a_plain_search_gives(f: &Fixture) {
    let mut keys = Vec::new();
    for source in ["s1", "s2"] {
        for customer in ["c1", "c2", "c3"] {
            for query in ["q1", "q2"] {
                for day in ["2026-02-27", "2026-02-28", "2026-03-01"] {
                    keys.push(new_key(source, customer, query, day));
                }
            }
        }
    }
    f.ask_for(&keys, at(0)).await;
    for source in ["s1", "s2"] {
        let claim = PartitionClaim { source: source.to_owned(), ..claim_of(12, 0, at(1)) };
        for (n, claimed) in f.claim_partitions(&claim).await.iter().enumerate() {
            let judged = if n % 3 == 0 { accepted(1) } else { rejected("no rows") };
            f.judge(claimed, at(2), judged).await;
        }
    }
    let everything = f.store.partitions_page(&Selection::default(), None, 1_000.into()).await;
    let everything = everything.expect("read");
    let sources = [None, Some("s1"), Some("s2"), Some("s"), Some("%")];
    let customers = [None, Some("c2"), Some("c9")];
    let queries = [None, Some("q2"), Some("Q2")];
    let days = [
        (None, None),
        (Some("2026-02-28"), None),
        (None, Some("2026-02-28")),
        (Some("2026-02-28"), Some("2026-02-28")),
        (Some("2026-03-02"), None),
        (Some("2026-03-01"), Some("2026-02-27")),
    ];
    let statuses = std::iter::once(None).chain(PartitionStatus::ALL.map(Some));
    for status in statuses {
        for source in sources {
            for customer in customers {
                for query in queries {
                    for (since, until) in days {
                        let filter = Selection {
                            source: source.map(str::to_owned),
                            customer_id: customer.map(str::to_owned),
                            query_name: query.map(str::to_owned),
                            since: since.map(date),
                            until: until.map(date),
                            state: status.map(Into::into),
                            ..Selection::default()
                        };
                        let page = f.store.partitions_page(&filter, None, 1_000.into()).await;
                        let expected: Vec<_> = everything
                            .iter()
                            .filter(|record| {
                                let key = &record.key;
                                source.is_none_or(|source| key.source() == source)
                                    && customer.is_none_or(|customer| key.customer_id() == customer)
                                    && query.is_none_or(|query| key.query_name() == query)
                                    && filter.since.is_none_or(|day| key.logical_date() >= day)
                                    && filter.until.is_none_or(|day| key.logical_date() <= day)
                                    && status.is_none_or(|status| record.status == status)
                            })
                            .cloned()
                            .collect();
                        assert_eq!(page.expect("read"), expected, "{filter:?}");
                    }
                }
            }
        }
    }
}

// DMN-1
pub async fn failed_partitions_come_page_by_page_while_they_change(f: &Fixture) {
    let keys: Vec<PartitionKey> = (1..=10).map(day).collect();
    f.ask_for(&keys, at(0)).await;
    for (n, claimed) in f.claim_partitions(&claim_of(10, 0, at(1))).await.iter().enumerate() {
        let judged = if n == 4 { accepted(1) } else { rejected("no rows") };
        f.judge(claimed, at(2), judged).await;
    }
    let filter = Selection { state: Some(PartitionStatus::Failed.into()), ..Selection::default() };
    let first = f.store.partitions_page(&filter, None, 4.into()).await.expect("read");
    let first: Vec<PartitionKey> = first.into_iter().map(|record| record.key).collect();
    assert_eq!(first, keys[..4]);
    f.change_all(super::partition_samples::RETRY, &first, at(3)).await;
    let rest = f.store.partitions_page(&filter, first.last(), 100.into()).await.expect("read");
    let rest: Vec<PartitionKey> = rest.into_iter().map(|record| record.key).collect();
    assert_eq!(rest, keys[5..], "none is passed over because others were retried");
}

// PAR-1
pub async fn no_entry_is_said_and_none_is_invented(f: &Fixture) {
    f.ask_for(&[day(2)], at(0)).await;
    let read = f.store.partitions_by_key(&[day(1), day(2), day(1), day(2)]).await.expect("read");
    let there: Vec<bool> = read.iter().map(Option::is_some).collect();
    assert_eq!(there, [false, true, false, true]);
    assert_eq!(f.store.partitions_by_key(&[]).await.expect("read"), []);
    assert_eq!(f.listed(&Selection::default()).await, [day(2)], "reading made no entry");
}

// PAR-11
pub async fn partitions_come_by_id_beside_the_ledger(f: &Fixture) {
    let keys: Vec<PartitionKey> = (1..=5).rev().map(day).collect();
    f.ask_for(&keys, at(0)).await;
    let (mut after, mut found) = (PartitionId(0), Vec::new());
    loop {
        let page = f.store.partitions_by_id(after, 2).await.expect("read");
        let Some(last) = page.last() else { break };
        assert!(page.iter().all(|record| record.id > after));
        after = last.id;
        found.extend(page);
    }
    assert!(found.is_sorted_by_key(|record| record.id));
    let mut found: Vec<PartitionKey> = found.into_iter().map(|record| record.key).collect();
    found.sort();
    assert_eq!(found, (1..=5).map(day).collect::<Vec<_>>());
}

// PAR-9
pub async fn the_days_of_a_series_are_those_that_have_an_entry(f: &Fixture) {
    f.partition_in(PartitionState::Success, &day(3)).await;
    f.partition_in(PartitionState::Failed, &day(1)).await;
    f.ask_for(&[day(7), key("8", "2026-03-02"), new_key("ads", "7", "other", "2026-03-02")], at(5))
        .await;
    let series = PartitionSeries {
        source: "ads".to_owned(),
        customer_id: "7".to_owned(),
        query_name: "daily".to_owned(),
    };
    let days = async |since: &str, until: &str| {
        let range = DateRange::new(date(since), date(until)).expect("a range");
        f.store.partition_dates(&series, range).await.expect("read")
    };
    let all = [
        (date("2026-03-01"), PartitionStatus::Failed),
        (date("2026-03-03"), PartitionStatus::Success),
        (date("2026-03-07"), PartitionStatus::Pending),
    ];
    assert_eq!(days("0001-01-01", "9999-12-31").await, all);
    assert_eq!(days("2026-03-01", "2026-03-03").await, all[..2], "both ends belong to a range");
    assert_eq!(days("2026-03-02", "2026-03-02").await, []);
}

// OPS-3
pub async fn partitions_are_counted_by_source_and_status(f: &Fixture) {
    assert_eq!(f.store.partition_counts().await.expect("read"), []);
    f.partition_in(PartitionState::Failed, &day(1)).await;
    f.partition_in(PartitionState::Reprocessing, &day(2)).await;
    f.ask_for(&[day(3), day(4), new_key("adz", "7", "q", "2026-03-01")], at(50)).await;
    let count = |source: &str, status, partitions| PartitionCount {
        source: source.to_owned(),
        status,
        partitions,
    };
    let expected = [
        count("ads", PartitionStatus::Pending, 2),
        count("ads", PartitionStatus::Success, 1),
        count("ads", PartitionStatus::Failed, 1),
        count("adz", PartitionStatus::Pending, 1),
    ];
    assert_eq!(f.store.partition_counts().await.expect("read"), expected);
}

// PAR-1, PAR-10
pub async fn the_database_refuses_partitions_that_make_no_sense(f: &Fixture) {
    f.partition_in(PartitionState::Failed, &day(1)).await;
    f.partition_in(PartitionState::Pending, &day(2)).await;
    for sql in [
        "UPDATE partition_state SET status = 'terminal'",
        "UPDATE partition_state SET status = 'success'",
        "UPDATE partition_state SET attempt_count = -1",
        "UPDATE partition_state SET status = 'failed', attempt_count = 0",
        "UPDATE partition_state SET record_count = -1",
        "UPDATE partition_state SET source = ''",
        "UPDATE partition_state SET logical_date = '2026-03-09'",
        "DELETE FROM partition_state WHERE status = 'pending'",
        "UPDATE partition_work SET kind = 'again'",
        "UPDATE partition_work SET lane = 'slow'",
        "UPDATE partition_work SET kind = NULL",
        "UPDATE partition_work SET kind = NULL, lane = NULL, requested_at = NULL, requested_by = NULL",
        "UPDATE partition_work SET lease_owner = 'w1'",
        "UPDATE partition_work SET run_id = 'r1'",
        "UPDATE partition_work SET paused_by = 'ada'",
        "UPDATE partition_work SET lease_epoch = -1",
    ] {
        f.raw.execute(sql).await.expect_err(sql);
    }
}
