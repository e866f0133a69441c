//! The journal.

use super::{Fixture, samples::at};
use redrive_store::{
    JournalEntry, JournalFilter, JournalRecord, MAX_PAGE_BYTES, PageLimit, ReaderPlace, Written,
};

fn entry(action: &str, unit: Option<&str>) -> JournalEntry {
    JournalEntry {
        at: at(1),
        actor: "operator".to_owned(),
        action: action.to_owned(),
        unit: unit.map(str::to_owned),
        filter: Some(r#"{"source":"ads"}"#.to_owned()),
        details: r#"{"reason":"naïve"}"#.to_owned(),
        dedupe_key: None,
    }
}

impl Fixture {
    async fn journal(&self, filter: &JournalFilter) -> Vec<JournalRecord> {
        self.store.journal_page(filter, 0, 1_000).await.expect("read")
    }
}

// OPS-3
pub async fn entries_come_in_the_order_they_were_written(f: &Fixture) {
    let entries: Vec<_> = (0..12).map(|n| entry(&format!("test.{n}"), None)).collect();
    assert!(f.store.append_journal(&entries).await.expect("written").iter().all(|new| *new));
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = f.store.journal_page(&JournalFilter::default(), after, 5).await.expect("read");
        let Some(last) = page.last() else { break };
        assert!(last.id > after);
        after = last.id;
        seen.extend(page.into_iter().map(|record| record.entry));
    }
    assert_eq!(seen, entries);
}

pub async fn pages_of_the_journal_are_bounded_in_bytes(f: &Fixture) {
    let large = format!("{{\"payload\":{:?}}}", "x".repeat(MAX_PAGE_BYTES / 2));
    let edit = JournalEntry { details: large.clone(), ..entry("run.edit", Some("run:1")) };
    f.store.append_journal(&vec![edit; 5]).await.expect("written");
    let limit = PageLimit::from(100);
    for unit in [None, Some("run:1".to_owned())] {
        let filter = JournalFilter { unit, action: None };
        let (mut after, mut before, mut up, mut down) = (0, i64::MAX, Vec::new(), Vec::new());
        loop {
            let oldest = f.store.journal_page(&filter, after, 100).await.expect("read");
            let newest = f.store.newest_journal(&filter, before, 100).await.expect("read");
            for page in [&oldest, &newest] {
                let bytes: usize = page.iter().map(|row| row.entry.details.len()).sum();
                assert!((1..MAX_PAGE_BYTES + large.len()).contains(&bytes), "{bytes}");
            }
            (after, before) = (oldest[oldest.len() - 1].id, newest[newest.len() - 1].id);
            let goes_on = limit.is_reached(&oldest);
            assert_eq!(goes_on, limit.is_reached(&newest));
            up.extend(oldest.into_iter().map(|row| row.id));
            down.extend(newest.into_iter().map(|row| row.id));
            if !goes_on {
                break;
            }
        }
        down.reverse();
        assert_eq!((up.len(), up), (5, down));
    }
}

pub async fn an_entry_with_a_known_key_is_ignored(f: &Fixture) {
    let once = JournalEntry { dedupe_key: Some("giveup:run:1:9".to_owned()), ..entry("a.b", None) };
    let same_batch = [once.clone(), entry("c.d", None), once.clone()];
    assert_eq!(f.store.append_journal(&same_batch).await.expect("written"), [true, true, false]);
    assert_eq!(f.store.append_journal(&[once]).await.expect("written"), [false]);
    assert_eq!(f.journal(&JournalFilter::default()).await.len(), 2);
}

// OPS-3
pub async fn entries_are_found_by_unit_and_action(f: &Fixture) {
    let entries = [
        entry("a.x", Some("run:1")),
        entry("a.y", Some("run:1")),
        entry("a.x", Some("run:10")),
        entry("a.x", None),
    ];
    f.store.append_journal(&entries).await.expect("written");
    let found = |unit: Option<&str>, action: Option<&str>| JournalFilter {
        unit: unit.map(str::to_owned),
        action: action.map(str::to_owned),
    };
    assert_eq!(f.journal(&found(Some("run:1"), None)).await.len(), 2);
    assert_eq!(f.journal(&found(None, Some("a.x"))).await.len(), 3);
    assert_eq!(f.journal(&found(Some("run:1"), Some("a.y"))).await.len(), 1);
    assert_eq!(f.journal(&found(Some("run:%"), None)).await.len(), 0, "filters match exactly");
}

pub async fn the_database_refuses_to_change_the_journal(f: &Fixture) {
    f.store.append_journal(&[entry("a.b", None)]).await.expect("written");
    for sql in ["UPDATE journal SET actor = 'x'", "DELETE FROM journal"] {
        let refusal = f.raw.execute(sql).await.expect_err(sql);
        assert!(refusal.contains("append-only"), "{refusal}");
    }
    assert_eq!(f.journal(&JournalFilter::default()).await.len(), 1);
}

pub async fn a_new_reader_begins_at_the_end_and_goes_on_from_where_it_was(f: &Fixture) {
    assert_eq!(f.store.journal_reader("none", at(0)).await.expect("begun").settled, 0);
    f.store.append_journal(&[entry("a.b", None), entry("a.c", None)]).await.expect("written");
    let begun = f.store.journal_reader("r", at(0)).await.expect("begun");
    let page = f.store.journal_page(&JournalFilter::default(), 0, 10).await.expect("read");
    let end = page.last().expect("two entries").id;
    assert_eq!(begun, ReaderPlace { settled: end, seen: end, seen_at: at(0) });
    f.store.append_journal(&[entry("a.d", None)]).await.expect("written");
    assert_eq!(f.store.journal_reader("r", at(5)).await.expect("read"), begun, "it stays there");
    assert_eq!(begun.moved(end + 1, at(119)), None, "something may still appear before");
    let first = begun.moved(end + 1, at(120)).expect("two minutes later");
    assert_eq!(first, ReaderPlace { settled: end, seen: end + 1, seen_at: at(120) });
    let moved = f.store.move_journal_reader("r", &begun, &first).await.expect("noted");
    assert_eq!(moved, Written::Applied);
    let second = first.moved(end + 1, at(240)).expect("two more later");
    assert_eq!(second.settled, end + 1);
    let stale = f.store.move_journal_reader("r", &begun, &second).await.expect("asked");
    assert_eq!(stale, Written::Stale);
    assert_eq!(f.store.journal_reader("r", at(300)).await.expect("read"), first);
    let back = ReaderPlace { settled: end - 1, seen: end + 2, seen_at: at(360) };
    let moved = f.store.move_journal_reader("r", &first, &back).await.expect("noted");
    assert_eq!(moved, Written::Applied);
    assert_eq!(f.store.journal_reader("r", at(400)).await.expect("read"), back);
}

pub async fn readers_at_once_note_one_place(f: &Fixture) {
    f.store.append_journal(&[entry("a.b", None)]).await.expect("written");
    let readers = (0..8).map(|_| {
        let store = f.store.clone();
        tokio::spawn(async move {
            let place = store.journal_reader("r", at(0)).await.expect("begun");
            // Who comes after the first has moved it finds nothing to move.
            let Some(next) = place.moved(place.seen, at(200)) else { return Written::Stale };
            store.move_journal_reader("r", &place, &next).await.expect("asked")
        })
    });
    let mut applied = 0;
    for reader in readers.collect::<Vec<_>>() {
        applied += usize::from(reader.await.expect("ended") == Written::Applied);
    }
    assert_eq!(applied, 1);
}
