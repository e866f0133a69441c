//! Batches that name a row twice end as if their rows had been written one after another.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Decision, Failure, GiveUpReason, ItemEvent, ItemId, ItemStatus, RunStatus,
};
use redrive_postgres::PostgresStore;
use redrive_store::{
    AddedItem, Categories, ClaimRequest, ClaimedRun, ItemGroup, ItemMove, Items, Journal,
    JournalEntry, JournalFilter, LeaseRef, LeaseRelease, Leased, Leases, Ledger, NewItem, NewRun,
    Operator, RunCompletion, RunFinish, Runs, UnitKind, UnitRow, Verdict, WorkerId, Written,
};
use serde_json::json;

use crate::server::Database;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn worker() -> WorkerId {
    WorkerId("w".to_owned())
}

async fn claimed(store: &PostgresStore, count: u32) -> Vec<ClaimedRun> {
    let runs: Vec<NewRun> = (0..count).map(|n| NewRun::new("q", &json!(n), NOW).unwrap()).collect();
    store.submit_runs(&runs, NOW).await.unwrap();
    let request = ClaimRequest {
        queue: "q".to_owned(),
        categories: Categories::All,
        limit: count,
        owner: worker(),
        lease_until: NOW,
        now: NOW,
        gates: Default::default(),
    };
    store.claim_runs(&request).await.unwrap()
}

fn finish(run: &ClaimedRun, completion: RunCompletion) -> RunFinish {
    RunFinish {
        id: run.id,
        epoch: run.epoch,
        attempt: run.attempt,
        history: run.history,
        started_at: NOW,
        ended_at: NOW,
        worker: worker(),
        completion,
        gates: None,
    }
}

fn passed() -> RunCompletion {
    RunCompletion::Judged { verdict: Verdict::Passed, result: None }
}

fn given_up() -> RunCompletion {
    RunCompletion::Failed {
        failure: Failure::lost_worker("no word"),
        decision: Decision::GiveUp { reason: GiveUpReason::AttemptsExhausted },
    }
}

async fn journal(store: &PostgresStore) -> Vec<String> {
    let page = store.journal_page(&JournalFilter::default(), 0, 100).await.unwrap();
    page.into_iter().map(|record| record.entry.action).collect()
}

// RUN-7
#[tokio::test]
async fn the_first_of_two_finishes_of_one_lease_counts() {
    let store = Database::migrated().await.store().await;
    let runs = claimed(&store, 2).await;
    let batch = [
        finish(&runs[0], given_up()),
        finish(&runs[1], passed()),
        finish(&runs[0], passed()),
        finish(&runs[1], given_up()),
    ];
    let written = store.finish_runs(&batch, NOW).await.unwrap();
    assert_eq!(written, [Written::Applied, Written::Applied, Written::Stale, Written::Stale]);
    let statuses: Vec<_> = store
        .runs_by_id(&[runs[0].id, runs[1].id])
        .await
        .unwrap()
        .iter()
        .map(|run| run.status)
        .collect();
    assert_eq!(statuses, [RunStatus::Error, RunStatus::Passed]);
    for run in &runs {
        let unit = UnitRow::new(UnitKind::Run, run.id.0);
        let attempts = store.attempts_of(&unit, AttemptNumber(0), 10).await.unwrap();
        assert_eq!(attempts.len(), 1);
    }
    assert_eq!(journal(&store).await, ["run.lease_lost", "run.giveup"]);
}

/// Places, ledger and journal of a long batch belong to the right runs.
#[tokio::test]
async fn a_long_batch_of_every_ending_keeps_its_rows_together() {
    let store = Database::migrated().await.store().await;
    let runs = claimed(&store, 1_000).await;
    let completion = |n: usize| match n % 4 {
        0 => passed(),
        1 => given_up(),
        _ => RunCompletion::Failed {
            failure: Failure::http(500, None, &format!("failure {n}")),
            decision: Decision::RetryAt {
                at: NOW,
                delay: Duration::from_secs(n as u64),
                counted: true,
            },
        },
    };
    let mut batch: Vec<_> =
        runs.iter().enumerate().map(|(n, run)| finish(run, completion(n))).collect();
    for stale in batch.iter_mut().step_by(3) {
        stale.epoch.0 += 1;
    }
    let written = store.finish_runs(&batch, NOW).await.unwrap();
    for (n, run) in runs.iter().enumerate() {
        let unit = UnitRow::new(UnitKind::Run, run.id.0);
        let attempts = store.attempts_of(&unit, AttemptNumber(0), 10).await.unwrap();
        let told = JournalFilter { unit: Some(unit.to_string()), action: None };
        let told = store.journal_page(&told, 0, 10).await.unwrap().len();
        if n % 3 == 0 {
            assert_eq!((written[n], attempts.len(), told), (Written::Stale, 0, 0), "{n}");
        } else {
            assert_eq!((written[n], attempts.len()), (Written::Applied, 1), "{n}");
            assert_eq!(attempts[0], batch[n].ledger_row(), "{n}");
            assert_eq!(told, batch[n].journal_rows().len(), "{n}");
        }
    }
}

// RUN-7
#[tokio::test]
async fn a_lease_that_is_named_twice_is_renewed_and_handed_back_once() {
    let store = Database::migrated().await.store().await;
    let runs = claimed(&store, 1).await;
    let lease = LeaseRef { id: runs[0].id.0, epoch: runs[0].epoch };
    let renewed = store.renew_leases(Leased::Run, &[lease, lease], NOW).await.unwrap();
    assert_eq!(renewed, [Written::Applied, Written::Applied]);
    let back = LeaseRelease { lease, owner: worker(), why: "shutdown".to_owned() };
    let returned = store.release_leases(Leased::Run, &[back.clone(), back], NOW).await.unwrap();
    assert_eq!(returned, [Written::Applied, Written::Stale]);
    assert_eq!(journal(&store).await, ["run.handback"]);
}

async fn one_item(store: &PostgresStore, name: &str) -> ItemId {
    let item = NewItem {
        group: ItemGroup { upload: "tiles".to_owned(), group: "g".to_owned() },
        name: name.to_owned(),
        content_url: "file:a".to_owned(),
        size_bytes: 1,
        sha256: "ab".to_owned(),
    };
    let by = Operator { actor: "ada".to_owned(), at: NOW, reason: None };
    let batch = [item.clone(), NewItem { sha256: "cd".to_owned(), ..item.clone() }, item];
    let added = store.add_items(&batch, &by).await.unwrap();
    let AddedItem::Accepted(id) = added[0] else { panic!("{added:?}") };
    assert_eq!(added[1..], [AddedItem::Conflict(id), AddedItem::Duplicate(id)]);
    id
}

// UPL-5
#[tokio::test]
async fn an_item_takes_several_steps_in_one_batch() {
    let store = Database::migrated().await.store().await;
    let (one, two) = (one_item(&store, "one").await, one_item(&store, "two").await);
    let step = |id: ItemId, event: ItemEvent, key: Option<&str>| ItemMove {
        journal: Some(JournalEntry {
            at: NOW,
            actor: "me".to_owned(),
            action: event.name().to_owned(),
            unit: Some(format!("item:{id}")),
            filter: None,
            details: "{}".to_owned(),
            dedupe_key: key.map(str::to_owned),
        }),
        ..ItemMove::new(id, event, NOW)
    };
    let batch = [
        step(one, ItemEvent::GiveUp, None),
        step(two, ItemEvent::Acknowledge, Some("once")),
        step(one, ItemEvent::Reset, None),
        step(one, ItemEvent::Trust, None),
        step(one, ItemEvent::Acknowledge, Some("once")),
        step(one, ItemEvent::Trust, None),
        step(two, ItemEvent::Refuse, None),
    ];
    let written = store.move_items(&batch).await.unwrap();
    let mut expected = [Written::Applied; 7];
    expected[3] = Written::Stale;
    assert_eq!(written, expected);
    let statuses: Vec<_> =
        store.items_by_id(&[one, two]).await.unwrap().iter().map(|item| item.status).collect();
    assert_eq!(statuses, [ItemStatus::Trusted, ItemStatus::Rejected]);
    assert_eq!(
        journal(&store).await,
        ["upload.add", "upload.add", "give up", "acknowledge", "reset", "trust", "refuse"],
        "in the order of the batch, a known key and a stale step left out"
    );
}

// UPL-5
#[tokio::test]
async fn a_batch_of_moves_that_cannot_be_written_whole_is_not_written_at_all() {
    let store = Database::migrated().await.store().await;
    let id = one_item(&store, "one").await;
    let step = |event, actor: &str| ItemMove {
        journal: Some(JournalEntry {
            at: NOW,
            actor: actor.to_owned(),
            action: "item.moved".to_owned(),
            unit: None,
            filter: None,
            details: "{}".to_owned(),
            dedupe_key: None,
        }),
        ..ItemMove::new(id, event, NOW)
    };
    let batch = [step(ItemEvent::Acknowledge, "fine"), step(ItemEvent::Trust, "NUL \0 inside")];
    store.move_items(&batch).await.unwrap_err();
    let item = store.items_by_id(&[id]).await.unwrap().pop().unwrap();
    assert_eq!((item.status, item.rejection_reason), (ItemStatus::Pending, None));
}

#[tokio::test]
async fn a_fact_that_many_tell_at_once_is_told_once() {
    let store = Arc::new(Database::migrated().await.store().await);
    let entry = |key: &str| JournalEntry {
        at: NOW,
        actor: "me".to_owned(),
        action: "a.b".to_owned(),
        unit: None,
        filter: None,
        details: "{}".to_owned(),
        dedupe_key: Some(key.to_owned()),
    };
    let mut tellers = tokio::task::JoinSet::new();
    for n in 0..16 {
        // In both orders, so that they get in each other's way.
        let batch = if n % 2 == 0 { ["one", "two"] } else { ["two", "one"] }.map(entry);
        let store = Arc::clone(&store);
        tellers.spawn(async move { store.append_journal(&batch).await.unwrap() });
    }
    let told = tellers.join_all().await.into_iter().flatten().filter(|new| *new).count();
    assert_eq!((told, journal(&store).await.len()), (2, 2));
}
