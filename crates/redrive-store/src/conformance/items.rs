//! Items of uploads.

use redrive_core::{ItemEvent, ItemId, ItemStatus, Message};

use super::{Fixture, samples::at};
use crate::{
    AddedItem, ItemGroup, ItemMove, ItemRecord, JournalEntry, JournalFilter, NewItem, Written,
};

fn group(name: &str) -> ItemGroup {
    ItemGroup { upload: "tiles".to_owned(), group: name.to_owned() }
}

fn item(name: &str) -> NewItem {
    NewItem {
        group: group("g"),
        name: name.to_owned(),
        content_url: format!("file:tiles/{name}"),
        size_bytes: 5_000_000_000,
        sha256: "ab".repeat(32),
    }
}

fn step(id: ItemId, event: ItemEvent) -> ItemMove {
    ItemMove { id, event, rejection_reason: None, at: at(10), journal: None }
}

impl Fixture {
    async fn add(&self, items: &[NewItem]) -> Vec<ItemId> {
        let added = self.store.add_items(items, at(1)).await.expect("added");
        let accepted = |added| match added {
            AddedItem::Accepted(id) => id,
            refused => panic!("not accepted: {refused:?}"),
        };
        added.into_iter().map(accepted).collect()
    }

    async fn item(&self, id: ItemId) -> ItemRecord {
        self.store.items_by_id(&[id]).await.expect("read").pop().expect("the item is there")
    }

    async fn move_one(&self, step: ItemMove) -> Written {
        self.store.move_items(&[step]).await.expect("answered")[0]
    }
}

pub async fn an_item_reads_back_as_it_was_given(f: &Fixture) {
    let new = item("a/b %é");
    let id = f.add(std::slice::from_ref(&new)).await[0];
    let stored = f.item(id).await;
    assert_eq!((stored.group, stored.name), (new.group, new.name));
    assert_eq!((stored.content_url, stored.size_bytes), (new.content_url, new.size_bytes));
    assert_eq!((stored.sha256, stored.status), (new.sha256, ItemStatus::Pending));
    assert_eq!((stored.upload_attempts, stored.attempts_at_reset), (0, 0));
    assert_eq!((stored.rejection_reason, stored.updated_at), (None, at(1)));
}

pub async fn the_same_item_again_is_a_no_op_and_another_is_refused(f: &Fixture) {
    let id = f.add(&[item("a")]).await[0];
    let other = NewItem { sha256: "cd".repeat(32), ..item("a") };
    let elsewhere = NewItem { group: group("h"), ..item("a") };
    let added = f.store.add_items(&[item("a"), other, elsewhere], at(2)).await.expect("answered");
    assert_eq!(added[..2], [AddedItem::Duplicate(id), AddedItem::Conflict(id)]);
    assert!(matches!(added[2], AddedItem::Accepted(_)), "a name is unique in its group alone");
}

pub async fn a_name_that_cannot_be_kept_is_refused_with_its_batch(f: &Fixture) {
    for name in ["", "a\0b", &"x".repeat(crate::MAX_NAME_BYTES + 1)] {
        let error = f.store.add_items(&[item("good"), item(name)], at(1)).await;
        assert!(error.is_err_and(|error| !error.is_transient()), "{name:?}");
    }
    assert_eq!(f.store.pending_items(&group("g"), ItemId(0), 10).await.expect("read"), []);
}

pub async fn pending_items_come_page_by_page(f: &Fixture) {
    let names: Vec<_> = (0..7).map(|n| item(&format!("tile{n}"))).collect();
    let ids = f.add(&names).await;
    f.add(&[NewItem { group: group("other"), ..item("x") }]).await;
    assert_eq!(f.move_one(step(ids[3], ItemEvent::Acknowledge)).await, Written::Applied);
    let (mut after, mut seen) = (ItemId(0), Vec::new());
    loop {
        let page = f.store.pending_items(&group("g"), after, 2).await.expect("read");
        let Some(last) = page.last() else { break };
        after = last.id;
        seen.extend(page.into_iter().map(|item| item.id));
    }
    assert_eq!(seen, [ids[0], ids[1], ids[2], ids[4], ids[5], ids[6]]);
}

// UPL-4
pub async fn counting_an_attempt_returns_the_new_count(f: &Fixture) {
    let ids = f.add(&[item("a"), item("b")]).await;
    for expected in 1..=3 {
        let count = f.store.increment_upload_attempts(ids[0]).await.expect("counted");
        assert_eq!(count, Some(expected));
    }
    assert_eq!(f.item(ids[0]).await.upload_attempts, 3);
    assert_eq!(f.item(ids[1]).await.upload_attempts, 0);
}

// UPL-4
pub async fn attempts_counted_at_once_are_all_counted(f: &Fixture) {
    let ids = f.add(&[item("a"), item("b")]).await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..200 {
        let (store, id) = (f.store.clone(), ids[n % 4 / 3]);
        tasks.spawn(async move { (id, store.increment_upload_attempts(id).await) });
    }
    let mut counts: Vec<_> = tasks
        .join_all()
        .await
        .into_iter()
        .map(|(id, count)| (id, count.expect("counted").expect("a known item")))
        .collect();
    counts.sort_unstable();
    let expected: Vec<_> =
        (1..=150).map(|n| (ids[0], n)).chain((1..=50).map(|n| (ids[1], n))).collect();
    assert_eq!(counts, expected);
}

// UPL-4
pub async fn an_unknown_item_is_not_counted(f: &Fixture) {
    let count = f.store.increment_upload_attempts(ItemId(77)).await.expect("answered");
    assert_eq!(count, None);
}

// UPL-5
pub async fn an_item_moves_only_from_where_it_may(f: &Fixture) {
    for from in ItemStatus::ALL {
        for event in ItemEvent::ALL {
            let id = f.add(&[item(&format!("{from}-{}", event.name()))]).await[0];
            let way: &[ItemEvent] = match from {
                ItemStatus::Pending => &[],
                ItemStatus::Uploaded => &[ItemEvent::Acknowledge],
                ItemStatus::Trusted => &[ItemEvent::Acknowledge, ItemEvent::Trust],
                ItemStatus::Rejected => &[ItemEvent::Acknowledge, ItemEvent::Refuse],
                ItemStatus::UploadGiveup => &[ItemEvent::GiveUp],
            };
            for earlier in way {
                assert_eq!(f.move_one(step(id, *earlier)).await, Written::Applied);
            }
            let (status, written) = match from.apply(event) {
                Ok(to) => (to, Written::Applied),
                Err(_) => (from, Written::Stale),
            };
            assert_eq!(f.move_one(step(id, event)).await, written, "{from} {}", event.name());
            assert_eq!(f.item(id).await.status, status);
        }
    }
}

// UPL-2
pub async fn a_move_tells_the_journal_once(f: &Fixture) {
    let id = f.add(&[item("a")]).await[0];
    let give_up = ItemMove {
        rejection_reason: Some(Message::clean("422 broken\0 tile")),
        journal: Some(JournalEntry {
            at: at(10),
            actor: "w1".to_owned(),
            action: "upload.giveup".to_owned(),
            unit: Some(format!("item:{id}")),
            filter: None,
            details: r#"{"attempts":5}"#.to_owned(),
            dedupe_key: None,
        }),
        ..step(id, ItemEvent::GiveUp)
    };
    let written = f.store.move_items(&[give_up.clone(), give_up]).await.expect("answered");
    assert_eq!(written, [Written::Applied, Written::Stale]);
    let journal = f.store.journal_page(&JournalFilter::default(), 0, 10).await.expect("read");
    assert_eq!(journal.len(), 1);
    assert_eq!(f.item(id).await.rejection_reason.as_deref(), Some("422 broken\\u{0} tile"));
}

// UPL-5
pub async fn a_reset_records_the_count_and_keeps_it(f: &Fixture) {
    let id = f.add(&[item("a")]).await[0];
    for _ in 0..5 {
        f.store.increment_upload_attempts(id).await.expect("counted");
    }
    assert_eq!(f.move_one(step(id, ItemEvent::GiveUp)).await, Written::Applied);
    assert_eq!(f.item(id).await.attempts_at_reset, 0);
    assert_eq!(f.move_one(step(id, ItemEvent::Reset)).await, Written::Applied);
    let reset = f.item(id).await;
    assert_eq!((reset.upload_attempts, reset.attempts_at_reset), (5, 5));
}
