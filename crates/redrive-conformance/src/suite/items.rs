//! Upload items.

use redrive_core::{AttemptNumber, Failure, ItemEvent, ItemId, ItemStatus, Message};

use super::{
    Fixture,
    samples::{at, distinct_entry, operator},
};
use redrive_store::{
    AddedItem, AttemptOutcome, ItemAttempt, ItemContent, ItemCounts, ItemGroup, ItemMove,
    ItemRecord, JournalEntry, JournalFilter, NewItem, Operator, Selection, UnitKind, UnitRow,
    Written,
};

pub(super) fn group(name: &str) -> ItemGroup {
    ItemGroup { upload: "tiles".to_owned(), group: name.to_owned() }
}

pub(super) fn item(name: &str) -> NewItem {
    NewItem {
        group: group("g"),
        name: name.to_owned(),
        content_url: format!("file:tiles/{name}"),
        size_bytes: 5_000_000_000,
        sha256: "ab".repeat(32),
    }
}

fn step(id: ItemId, event: ItemEvent) -> ItemMove {
    ItemMove::new(id, event, at(10))
}

impl Fixture {
    pub(super) async fn add(&self, items: &[NewItem]) -> Vec<ItemId> {
        let added = self.store.add_items(items, &operator(at(1))).await.expect("added");
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
    assert_eq!(stored.last_attempt, AttemptNumber(0));
}

pub async fn the_same_item_again_is_a_no_op_and_another_is_refused(f: &Fixture) {
    let id = f.add(&[item("a")]).await[0];
    let other = NewItem { sha256: "cd".repeat(32), ..item("a") };
    let elsewhere = NewItem { group: group("h"), ..item("a") };
    let again = [item("a"), other, elsewhere];
    let added = f.store.add_items(&again, &operator(at(2))).await.expect("answered");
    assert_eq!(added[..2], [AddedItem::Duplicate(id), AddedItem::Conflict(id)]);
    assert!(matches!(added[2], AddedItem::Accepted(_)), "a name is unique in its group alone");
}

pub async fn the_journal_says_who_added_an_item_and_nothing_of_one_that_was_there(f: &Fixture) {
    let by = operator(at(1));
    let both = [item("a"), NewItem { size_bytes: 7, ..item("b") }];
    let ids = f.add(&both).await;
    let changed = NewItem { sha256: "cd".repeat(32), ..item("b") };
    let again = [item("a"), changed, item("c")];
    let added = f.store.add_items(&again, &operator(at(2))).await.expect("answered");
    let AddedItem::Accepted(third) = added[2] else { panic!("{added:?}") };
    let filter = JournalFilter { action: Some("upload.add".to_owned()), unit: None };
    let journal = f.store.journal_page(&filter, 0, 10).await.expect("read");
    let told: Vec<_> = journal.into_iter().map(|record| record.entry).collect();
    let late = operator(at(2));
    let entries = [
        both[0].journal_entry(ids[0], &by),
        both[1].journal_entry(ids[1], &by),
        item("c").journal_entry(third, &late),
    ];
    assert_eq!(told, entries);
    let odd = Operator { actor: "NUL \0".to_owned(), at: at(3), reason: None };
    f.store.add_items(&[item("d")], &odd).await.expect("whoever adds it");
}

pub async fn a_name_that_cannot_be_kept_is_refused_with_its_batch(f: &Fixture) {
    for name in ["", "a\0b", &"x".repeat(redrive_store::MAX_NAME_BYTES + 1)] {
        let error = f.store.add_items(&[item("good"), item(name)], &operator(at(1))).await;
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
    // Another process had it acknowledged, and the ledger has no rejection of it.
    let id = f.add(&[item("a")]).await[0];
    assert_eq!(f.move_one(step(id, ItemEvent::Acknowledge)).await, Written::Applied);
    assert_eq!(f.store.increment_upload_attempts(id).await.expect("answered"), None);
    assert_eq!(f.item(id).await.upload_attempts, 0);
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
    let filter = JournalFilter { action: Some("upload.giveup".to_owned()), unit: None };
    let journal = f.store.journal_page(&filter, 0, 10).await.expect("read");
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

fn sent(failure: Option<Failure>) -> Option<ItemAttempt> {
    Some(ItemAttempt {
        gates: None,
        started_at: at(9),
        failure,
        worker: "w1".to_owned(),
        after: None,
    })
}

// UPL-1
pub async fn attempts_at_an_item_are_in_the_ledger_with_the_move(f: &Fixture) {
    let ids = f.add(&[item("a"), item("b")]).await;
    let rejected = ItemMove {
        attempt: sent(Some(Failure::http(422, None, "broken\0 tile"))),
        rejection_reason: Some(Message::clean("broken tile")),
        ..step(ids[0], ItemEvent::RejectAttempt)
    };
    let accepted = ItemMove { attempt: sent(None), ..step(ids[0], ItemEvent::Acknowledge) };
    let other = ItemMove { attempt: sent(None), ..step(ids[1], ItemEvent::Acknowledge) };
    let moves = [rejected.clone(), rejected, other, accepted.clone(), accepted];
    let written = f.store.move_items(&moves).await.expect("answered");
    let (yes, no) = (Written::Applied, Written::Stale);
    assert_eq!(written, [yes, yes, yes, yes, no], "what is acknowledged is not sent again");

    let unit = UnitRow::new(UnitKind::Item, ids[0].0);
    let ledger = f.store.attempts_of(&unit, AttemptNumber(0), 10).await.expect("read");
    let told: Vec<_> = ledger.iter().map(|row| (row.attempt.0, row.outcome)).collect();
    let (retrying, success) = (AttemptOutcome::Retrying, AttemptOutcome::Success);
    assert_eq!(told, [(1, retrying), (2, retrying), (3, success)]);
    assert_eq!(ledger[0].code.as_deref(), Some("422"));
    assert_eq!(ledger[0].message.as_deref(), Some("broken\\u{0} tile"));
    assert_eq!((ledger[0].started_at, ledger[0].ended_at), (at(9), at(10)));
    assert_eq!((ledger[0].counted, &*ledger[0].worker), (true, "w1"));
    assert_eq!(f.item(ids[0]).await.last_attempt, AttemptNumber(3));
    assert_eq!(f.item(ids[1]).await.last_attempt, AttemptNumber(1));
    assert_eq!(f.item(ids[0]).await.upload_attempts, 0, "one statement alone changes the count");
}

/// As when the answer is lost, and it is written again.
// UPL-1
pub async fn a_rejection_that_names_the_attempt_before_is_written_once(f: &Fixture) {
    let id = f.add(&[item("a")]).await[0];
    let rejected = |after: u32| {
        let attempt = sent(Some(Failure::http(503, None, "later"))).expect("an attempt");
        let attempt = Some(ItemAttempt { after: Some(AttemptNumber(after)), ..attempt });
        ItemMove { attempt, ..step(id, ItemEvent::RejectAttempt) }
    };
    let (yes, no) = (Written::Applied, Written::Stale);
    assert_eq!(f.move_one(rejected(0)).await, yes);
    assert_eq!(f.move_one(rejected(0)).await, no);
    assert_eq!(f.move_one(rejected(1)).await, yes);
    let at_once = f.store.move_items(&[rejected(1), rejected(2), rejected(2)]).await;
    assert_eq!(at_once.expect("answered"), [no, yes, no]);
    let unit = UnitRow::new(UnitKind::Item, id.0);
    let ledger = f.store.attempts_of(&unit, AttemptNumber(0), 10).await.expect("read");
    assert_eq!((ledger.len(), f.item(id).await.last_attempt), (3, AttemptNumber(3)));
}

// UPL-1
pub async fn attempts_at_one_item_at_once_get_numbers_without_gaps(f: &Fixture) {
    let id = f.add(&[item("a")]).await[0];
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let store = f.store.clone();
        let failure = Failure::http(503, None, "later");
        let rejected =
            ItemMove { attempt: sent(Some(failure)), ..step(id, ItemEvent::RejectAttempt) };
        tasks.spawn(async move { store.move_items(&[rejected]).await });
    }
    for written in tasks.join_all().await {
        assert_eq!(written.expect("answered"), [Written::Applied]);
    }
    let unit = UnitRow::new(UnitKind::Item, id.0);
    let ledger = f.store.attempts_of(&unit, AttemptNumber(0), 100).await.expect("read");
    let numbers: Vec<u32> = ledger.iter().map(|row| row.attempt.0).collect();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
}

pub async fn items_are_found_by_upload_group_and_status(f: &Fixture) {
    let elsewhere = ItemGroup { upload: "other".to_owned(), group: "g".to_owned() };
    let new = [
        item("a"),
        NewItem { group: group("h"), ..item("b") },
        NewItem { group: elsewhere, ..item("c") },
        item("d%_"),
    ];
    let ids = f.add(&new).await;
    assert_eq!(f.move_one(step(ids[3], ItemEvent::Acknowledge)).await, Written::Applied);
    let (tiles, g) = (Some("tiles".to_owned()), Some("g".to_owned()));
    let table = [
        (Selection::default(), vec![ids[0], ids[1], ids[2], ids[3]]),
        (Selection { upload: tiles.clone(), ..Selection::default() }, vec![ids[0], ids[1], ids[3]]),
        (Selection { group: g.clone(), ..Selection::default() }, vec![ids[0], ids[2], ids[3]]),
        (
            Selection {
                upload: tiles,
                group: g,
                state: Some(ItemStatus::Uploaded.into()),
                ..Selection::default()
            },
            vec![ids[3]],
        ),
        (Selection { group: Some("%".to_owned()), ..Selection::default() }, vec![]),
    ];
    for (filter, expected) in table {
        let (mut after, mut seen) = (ItemId(0), Vec::new());
        while let Some(item) =
            f.store.items_page(&filter, after, 1.into()).await.expect("read").pop()
        {
            after = item.id;
            seen.push(item.id);
        }
        assert_eq!(seen, expected, "{filter:?}");
    }
}

pub async fn items_of_a_group_are_counted_by_status(f: &Fixture) {
    let ids = f.add(&[item("a"), item("b"), item("c"), item("d")]).await;
    f.add(&[NewItem { group: group("other"), ..item("x") }]).await;
    for (id, event) in [(ids[0], ItemEvent::Acknowledge), (ids[1], ItemEvent::GiveUp)] {
        assert_eq!(f.move_one(step(id, event)).await, Written::Applied);
    }
    let counts = f.store.item_counts(&group("g")).await.expect("counted");
    let expected =
        ItemCounts { pending: 2, uploaded: 1, upload_giveup: 1, ..ItemCounts::default() };
    assert_eq!((counts, counts.total()), (expected, 4));
    let nothing = f.store.item_counts(&group("nowhere")).await.expect("counted");
    assert_eq!(nothing, ItemCounts::default());
}

// UPL-4
pub async fn two_hundred_attempts_at_many_items_are_all_counted(f: &Fixture) {
    let names: Vec<_> = (0..20).map(|n| item(&format!("tile{n}"))).collect();
    let ids = f.add(&names).await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..200 {
        let (store, id) = (f.store.clone(), ids[n % ids.len()]);
        tasks.spawn(async move { store.increment_upload_attempts(id).await });
    }
    for count in tasks.join_all().await {
        assert!(count.expect("counted").is_some());
    }
    for item in f.store.items_by_id(&ids).await.expect("read") {
        assert_eq!(item.upload_attempts, 10, "{}", item.name);
    }
}

// FIX-1
pub async fn a_replacement_changes_the_content_that_was_seen(f: &Fixture) {
    let id = f.add(&[item("a")]).await[0];
    f.store.increment_upload_attempts(id).await.expect("counted");
    let before = f.item(id).await;
    let content = ItemContent {
        content_url: "file:elsewhere/b".to_owned(),
        size_bytes: 7,
        sha256: "cd".repeat(32),
    };
    let replacement = |seen: &str| ItemMove {
        if_sha256: Some(seen.repeat(32)),
        content: Some(content.clone()),
        ..step(id, ItemEvent::Replace)
    };
    assert_eq!(f.move_one(replacement("ef")).await, Written::Stale);
    assert_eq!(f.item(id).await, before);
    assert_eq!(f.move_one(replacement("ab")).await, Written::Applied);
    let replaced = ItemRecord {
        content_url: content.content_url.clone(),
        size_bytes: content.size_bytes,
        sha256: content.sha256.clone(),
        attempts_at_reset: 1,
        updated_at: at(10),
        ..before
    };
    assert_eq!(f.item(id).await, replaced);
}

pub async fn items_that_were_not_acknowledged_can_be_dropped(f: &Fixture) {
    let ids = f.add(&[item("a"), item("b"), item("c")]).await;
    let attempt = ItemAttempt {
        gates: None,
        started_at: at(5),
        failure: Some(Failure::http(503, None, "busy")),
        worker: "w1".to_owned(),
        after: None,
    };
    let rejection = ItemMove { attempt: Some(attempt), ..step(ids[1], ItemEvent::RejectAttempt) };
    let moves = [rejection, step(ids[1], ItemEvent::GiveUp), step(ids[2], ItemEvent::Acknowledge)];
    f.store.move_items(&moves).await.map(drop).expect("moved");
    let kept = f.item(ids[2]).await;
    let drops: Vec<_> =
        ids.iter().map(|id| (*id, distinct_entry(&format!("item:{id}"), at(20)))).collect();
    let written = f.store.drop_items(&drops).await.expect("answered");
    assert_eq!(written, [Written::Applied, Written::Applied, Written::Stale]);
    assert_eq!(f.store.items_by_id(&ids).await.expect("read"), [kept]);
    let entries: Vec<_> = drops[..2].iter().map(|(_, entry)| entry.clone()).collect();
    assert_eq!(f.told_by("unit.change").await, entries);
    let unit = UnitRow::new(UnitKind::Item, ids[1].0);
    let attempts = f.store.attempts_of(&unit, AttemptNumber(0), 10).await.expect("read");
    assert_eq!(attempts.len(), 1, "the ledger stays");
}
