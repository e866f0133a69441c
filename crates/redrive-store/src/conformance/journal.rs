//! The journal.

use super::{Fixture, samples::at};
use crate::{JournalEntry, JournalFilter, JournalRecord};

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
