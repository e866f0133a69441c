//! Control plane actions on partitions.

use redrive_core::{
    PartitionEvent, PartitionKey, PartitionState, PartitionStatus, TERMINAL_MARK, TerminalReason,
};

use super::{
    Fixture,
    partition_samples::{
        BACKFILL, FORCE, FRESH, REPROCESS, RETRY, RETRY_CLEARED, accepted, claim_of, day, done,
        key, order, rejected, verdict,
    },
    samples::at,
};
use redrive_store::{
    AuditContext, Lane, NamedPartition, Operator, PartitionAction, PartitionChange,
    PartitionSnapshot, Selection, WorkKind, Written, partition_giveup,
};

const EVENTS: [(PartitionAction, PartitionEvent); 7] = [
    (RETRY, PartitionEvent::Retry),
    (RETRY_CLEARED, PartitionEvent::Retry),
    (REPROCESS, PartitionEvent::Reprocess),
    (BACKFILL, PartitionEvent::Backfill),
    (FORCE, PartitionEvent::ForcePending),
    (PartitionAction::MarkTerminal, PartitionEvent::MarkTerminal),
    (PartitionAction::ClearTerminal, PartitionEvent::ClearTerminal),
];

// PAR-5, PAR-8, PAR-9
pub async fn a_partition_moves_only_from_where_it_may(f: &Fixture) {
    for (n, (action, event)) in EVENTS.into_iter().enumerate() {
        for (m, from) in PartitionState::ALL.into_iter().enumerate() {
            let what = format!("{action:?} of a partition that is {}", from.name());
            let key = key(&format!("{n} {m}"), "2026-03-01");
            f.partition_in(from, &key).await;
            let (before, told) = (f.entry(&key).await, f.told_of(&key).await);
            let cleared = action == RETRY_CLEARED && from == PartitionState::Terminal;
            let after = if cleared { Ok(PartitionState::Pending) } else { from.apply(event) };
            let change = f.change_one(action, &key, at(50)).await;
            match after {
                Ok(to) => {
                    assert_eq!(change, done(from), "{what}");
                    assert_eq!(f.partition_state(&key).await, to, "{what}");
                    assert_eq!(f.told_of(&key).await.len(), told.len() + 1, "{what}");
                    let again = f.change_one(action, &key, at(51)).await;
                    assert_eq!(again, PartitionChange::Already(to), "{what}, again");
                }
                Err(_) => {
                    let refused = match change {
                        PartitionChange::Refused(state) | PartitionChange::Already(state) => state,
                        PartitionChange::Unknown => PartitionState::Absent,
                        change => panic!("{what}: {change:?}"),
                    };
                    assert_eq!(refused, from, "{what}");
                    assert_eq!(f.entry(&key).await, before, "{what}");
                    assert_eq!(f.told_of(&key).await, told, "{what}");
                }
            }
            // Whatever is asked for goes out of the way of the next case.
            f.claim_partitions(&claim_of(10, 5, at(60))).await;
        }
    }
}

// PAR-8
pub async fn a_retry_leaves_counts_runs_and_history_alone(f: &Fixture) {
    f.partition_in(PartitionState::Failed, &day(1)).await;
    let (failed, attempts) = (f.partition(&day(1)).await, f.partition_attempts(&day(1)).await);
    assert_eq!(f.change_one(RETRY, &day(1), at(20)).await, done(PartitionState::Failed));
    let pending = f.partition(&day(1)).await;
    assert_eq!((pending.status, pending.updated_at), (PartitionStatus::Pending, at(20)));
    assert_eq!(pending.attempt_count, failed.attempt_count);
    assert_eq!(pending.error_message, failed.error_message, "the last error stays to be read");
    assert_eq!(pending.current_run_id, failed.current_run_id);
    assert_eq!(pending.record_count, failed.record_count);
    assert_eq!(f.partition_attempts(&day(1)).await, attempts);
    let request = pending.work.and_then(|work| work.request).expect("asked for");
    assert_eq!((request.kind, request.lane), (WorkKind::Retry, Lane::Fresh));
    assert_eq!((request.requested_at, request.requested_by.as_str()), (at(20), "ada"));
}

// PAR-8
pub async fn a_retry_of_what_is_pending_says_so_and_does_nothing(f: &Fixture) {
    f.ask_for(&[day(1), day(2)], at(0)).await;
    let held = f.claim_partitions(&claim_of(1, 0, at(1))).await;
    for key in [day(1), day(2)] {
        let before = f.partition(&key).await;
        let change = f.change_one(RETRY, &key, at(20)).await;
        assert_eq!(change, PartitionChange::Already(PartitionState::Pending));
        assert_eq!(f.partition(&key).await, before);
    }
    f.judge(&held[0], at(21), accepted(1)).await;
}

// PAR-7, PAR-8
pub async fn a_terminal_partition_is_passed_over_unless_its_mark_is_cleared(f: &Fixture) {
    f.partition_in(PartitionState::Terminal, &day(1)).await;
    let marked = f.partition(&day(1)).await;
    assert_eq!(marked.status, PartitionStatus::Failed, "terminal is no status");
    assert_eq!(marked.error_message.as_deref(), Some("[terminal] no rows"));
    for action in [RETRY, FORCE] {
        let change = f.change_one(action, &day(1), at(20)).await;
        assert_eq!(change, PartitionChange::Refused(PartitionState::Terminal), "{action:?}");
    }
    assert_eq!(f.partition(&day(1)).await, marked);
    assert_eq!(f.change_one(RETRY_CLEARED, &day(1), at(21)).await, done(PartitionState::Terminal));
    let pending = f.partition(&day(1)).await;
    assert_eq!(pending.state(), PartitionState::Pending);
    assert_eq!(pending.error_message.as_deref(), Some("no rows"));
}

// PAR-9
pub async fn a_cleared_mark_leaves_a_failed_partition(f: &Fixture) {
    f.partition_in(PartitionState::Terminal, &day(1)).await;
    let action = PartitionAction::ClearTerminal;
    assert_eq!(f.change_one(action, &day(1), at(20)).await, done(PartitionState::Terminal));
    let failed = f.partition(&day(1)).await;
    assert_eq!((failed.state(), failed.work.clone()), (PartitionState::Failed, None));
    assert_eq!(failed.error_message.as_deref(), Some("no rows"));
    assert_eq!(f.claim_partitions(&claim_of(5, 2, at(21))).await, [], "nothing was asked for");
}

// PAR-9
pub async fn a_backfill_respects_what_is_there(f: &Fixture) {
    let states = PartitionState::ALL;
    let keys: Vec<PartitionKey> = (1..=6).map(day).collect();
    for (state, key) in states.into_iter().zip(&keys).rev() {
        f.partition_in(state, key).await;
    }
    let before = f.store.partitions_by_key(&keys).await.expect("read");
    let changes = f.change_all(BACKFILL, &keys, at(20)).await;
    assert_eq!(
        changes,
        [
            done(PartitionState::Absent),
            PartitionChange::Already(PartitionState::Pending),
            PartitionChange::Refused(PartitionState::Success),
            PartitionChange::Refused(PartitionState::Reprocessing),
            PartitionChange::Refused(PartitionState::Failed),
            PartitionChange::Refused(PartitionState::Terminal),
        ]
    );
    let after = f.store.partitions_by_key(&keys).await.expect("read");
    assert_eq!(after[1..], before[1..]);
    let new = after[0].clone().expect("made");
    assert_eq!((new.state(), new.attempt_count), (PartitionState::Pending, 0));
    let request = new.work.and_then(|work| work.request).expect("asked for");
    assert_eq!((request.kind, request.lane), (WorkKind::First, Lane::Backfill));

    let changes = f.change_all(FORCE, &keys, at(21)).await;
    assert_eq!(changes[4], done(PartitionState::Failed));
    assert_eq!(changes[2], PartitionChange::Refused(PartitionState::Success), "never demoted");
    assert_eq!(changes[3], PartitionChange::Refused(PartitionState::Reprocessing));
    assert_eq!(changes[5], PartitionChange::Refused(PartitionState::Terminal));
}

// PAR-8
pub async fn a_partition_named_twice_is_changed_once_and_answers_come_in_order(f: &Fixture) {
    f.partition_in(PartitionState::Failed, &day(5)).await;
    let keys = [day(9), day(5), day(1), day(5), day(9)];
    let changes = f.change_all(FORCE, &keys, at(20)).await;
    let already = PartitionChange::Already(PartitionState::Pending);
    let absent = done(PartitionState::Absent);
    assert_eq!(changes, [absent, done(PartitionState::Failed), absent, already, already]);
    assert_eq!(f.actions_on(&day(9)).await.len(), 1);
    assert_eq!(
        f.change_all(RETRY, &[day(3), day(1)], at(21)).await,
        [PartitionChange::Unknown, already]
    );
    assert_eq!(f.change_all(RETRY, &[], at(21)).await, []);
}

// PAR-8, DMN-2
pub async fn what_has_changed_since_it_was_seen_is_left_alone(f: &Fixture) {
    f.partition_in(PartitionState::Failed, &day(1)).await;
    let seen = NamedPartition::from(&f.partition(&day(1)).await);
    // Another daemon retries it, and it fails again.
    f.change_one(RETRY, &day(1), at(20)).await;
    let claimed = f.take(at(21)).await;
    f.judge(&claimed, at(22), rejected("no rows")).await;
    let retry = async |named: &NamedPartition| {
        let named = std::slice::from_ref(named);
        f.store.change_partitions(&RETRY, named, &order(at(23))).await.expect("answered")[0]
    };
    assert_eq!(retry(&seen).await, PartitionChange::Moved(PartitionState::Failed));
    let now = f.partition(&day(1)).await;
    let almost = [
        PartitionSnapshot { attempt_count: 1, ..PartitionSnapshot::of(&now) },
        PartitionSnapshot { updated_at: at(21), ..PartitionSnapshot::of(&now) },
        PartitionSnapshot { status: PartitionStatus::Success, ..PartitionSnapshot::of(&now) },
    ];
    for seen in almost {
        let named = NamedPartition { key: day(1), expected: Some(seen) };
        assert_eq!(retry(&named).await, PartitionChange::Moved(PartitionState::Failed));
    }
    assert_eq!(f.partition(&day(1)).await, now);
    // Pausing changes neither its status nor its times.
    let seen = NamedPartition::from(&now);
    f.change_one(PartitionAction::Pause, &day(1), at(22)).await;
    assert_eq!(retry(&seen).await, PartitionChange::Moved(PartitionState::Failed));
    f.change_one(PartitionAction::Resume, &day(1), at(22)).await;
    assert_eq!(retry(&seen).await, done(PartitionState::Failed));
}

// PAR-8, DMN-2
pub async fn daemons_and_an_operator_at_once_retry_each_partition_once(f: &Fixture) {
    let keys: Vec<PartitionKey> = (1..=30).map(day).collect();
    f.ask_for(&keys, at(0)).await;
    for claimed in f.claim_partitions(&claim_of(30, 0, at(1))).await {
        f.judge(&claimed, at(2), rejected("no rows")).await;
    }
    let filter = Selection { state: Some(PartitionStatus::Failed.into()), ..Selection::default() };
    let failed = f.store.partitions_page(&filter, None, 100.into()).await.expect("read");
    assert_eq!(failed.len(), 30);
    let retries = (0..4).map(|who| {
        let store = f.store.clone();
        let mut named: Vec<NamedPartition> = failed.iter().map(Into::into).collect();
        if who % 2 == 0 {
            named.reverse();
        }
        let by = Operator { actor: format!("daemon-{who}"), at: at(10), reason: None };
        let order = AuditContext { by, ..order(at(10)) };
        tokio::spawn(async move {
            let mut changes = Vec::new();
            for batch in named.chunks(7) {
                let batch = store.change_partitions(&RETRY, batch, &order).await;
                changes.extend(batch.expect("answered"));
            }
            changes
        })
    });
    let mut moved = 0;
    for retry in retries.collect::<Vec<_>>() {
        for change in retry.await.expect("retried") {
            match change {
                PartitionChange::Done(PartitionState::Failed) => moved += 1,
                PartitionChange::Already(PartitionState::Pending) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(moved, 30);
    for key in keys {
        let told = f.told_of(&key).await;
        let retries: Vec<_> =
            told.iter().filter(|entry| entry.action == "partition.retry").collect();
        assert_eq!(retries.len(), 1, "the journal says by whom");
        assert!(retries[0].actor.starts_with("daemon-"));
    }
}

// PAR-9
pub async fn backfills_at_once_make_each_entry_once(f: &Fixture) {
    let keys: Vec<PartitionKey> = (1..=30).map(day).collect();
    let backfills = (0..4).map(|who| {
        let store = f.store.clone();
        let mut named: Vec<NamedPartition> = keys.iter().cloned().map(Into::into).collect();
        if who % 2 == 0 {
            named.reverse();
        }
        tokio::spawn(async move {
            store.change_partitions(&FRESH, &named, &order(at(0))).await.expect("answered")
        })
    });
    let mut made = 0;
    for backfill in backfills.collect::<Vec<_>>() {
        let changes = backfill.await.expect("made");
        made += changes.iter().filter(|one| **one == done(PartitionState::Absent)).count();
    }
    assert_eq!(made, 30);
    assert_eq!(f.claim_partitions(&claim_of(100, 50, at(1))).await.len(), 30);
}

// PAR-9
pub async fn a_partition_is_paused_once_and_resumed_once(f: &Fixture) {
    assert_eq!(
        f.change_one(PartitionAction::Pause, &day(9), at(1)).await,
        PartitionChange::Unknown
    );
    for state in [PartitionState::Success, PartitionState::Failed, PartitionState::Pending] {
        let key = key(state.name(), "2026-03-01");
        f.partition_in(state, &key).await;
        let before = f.partition(&key).await;
        for (action, paused) in [(PartitionAction::Pause, true), (PartitionAction::Resume, false)] {
            assert_eq!(f.change_one(action, &key, at(20)).await, done(state));
            let again = f.change_one(action, &key, at(21)).await;
            assert_eq!(again, PartitionChange::Already(state), "{action:?}");
            assert_eq!(f.partition(&key).await.paused().is_some(), paused);
        }
        assert_eq!(f.partition(&key).await, before, "as if nothing had been");
        let actions = f.actions_on(&key).await;
        assert_eq!(actions, ["partition.backfill", "partition.pause", "partition.resume"]);
    }
    f.change_one(PartitionAction::Pause, &key("pending", "2026-03-01"), at(30)).await;
    let by = f.partition(&key("pending", "2026-03-01")).await.paused().cloned();
    assert_eq!(by, Some(order(at(30)).by), "who, when and why");
}

// PAR-8, OPS-3
pub async fn the_journal_tells_who_did_what_to_which_partition(f: &Fixture) {
    f.partition_in(PartitionState::Failed, &day(1)).await;
    let asked = AuditContext {
        by: Operator { actor: "NUL \0".to_owned(), at: at(9), reason: Some("\x1b".to_owned()) },
        command: "state retry".to_owned(),
        filter: Some(r#"{"source":"ads"}"#.to_owned()),
        flags: vec!["--force".to_owned(), "--yes".to_owned()],
    };
    let changes = f.store.change_partitions(&RETRY, &[day(1).into()], &asked).await;
    assert_eq!(changes.expect("answered"), [done(PartitionState::Failed)]);
    let told = f.told_of(&day(1)).await.pop().expect("told");
    assert_eq!((told.action.as_str(), told.at), ("partition.retry", at(9)));
    assert_eq!(told.actor, "NUL \\u{0}", "foreign text is cleaned");
    assert_eq!(told.unit.as_deref(), Some("partition:ads/7/daily/2026-03-01"));
    assert_eq!(told.filter.as_deref(), Some(r#"{"source":"ads"}"#));
    let details: serde_json::Value = serde_json::from_str(&told.details).expect("JSON");
    let expected = serde_json::json!({
        "before": "failed", "command": "state retry", "flags": ["--force", "--yes"],
        "lane": "fresh", "reason": "\\u{1b}",
    });
    assert_eq!(details, expected);
}

// DMN-3
pub async fn giving_up_on_a_partition_is_told_once_per_count(f: &Fixture) {
    let reason = TerminalReason::Policy(redrive_core::GiveUpReason::AttemptsExhausted);
    let entry = |attempts| partition_giveup(&day(1), attempts, reason, "daemon", at(1));
    let added = f.store.append_journal(&[entry(3)]).await.expect("written");
    assert_eq!(added, [true]);
    let added = f.store.append_journal(&[entry(3), entry(4), entry(4)]).await.expect("written");
    assert_eq!(added, [false, true, false]);
    let told = f.told_of(&day(1)).await;
    assert_eq!(told.len(), 2);
    assert_eq!(told[0].dedupe_key.as_deref(), Some("giveup:partition:ads/7/daily/2026-03-01:3"),);
    assert!(told[0].details.contains("attempts_exhausted"), "{}", told[0].details);
}

// PAR-8
pub async fn a_retry_and_a_verdict_at_once_are_not_mixed_up(f: &Fixture) {
    let keys: Vec<PartitionKey> = (1..=30).map(day).collect();
    f.ask_for(&keys, at(0)).await;
    let held = f.claim_partitions(&claim_of(30, 0, at(1))).await;
    let verdicts: Vec<_> =
        held.iter().map(|one| verdict(one, at(2), rejected("no rows"))).collect();
    let (judge, operator) = (f.store.clone(), f.store.clone());
    let judging = tokio::spawn(async move {
        for batch in verdicts.chunks(4) {
            let written = judge.finish_partitions(batch).await.expect("answered");
            assert!(written.iter().all(|written| *written == Written::Applied));
        }
    });
    let named: Vec<NamedPartition> = keys.iter().rev().cloned().map(Into::into).collect();
    let retrying = tokio::spawn(async move {
        let mut changes = Vec::new();
        for batch in named.chunks(4) {
            let batch = operator.change_partitions(&RETRY, batch, &order(at(3))).await;
            changes.extend(batch.expect("answered"));
        }
        changes
    });
    judging.await.expect("judged");
    let changes = retrying.await.expect("retried").into_iter().rev();
    for (key, change) in keys.iter().zip(changes) {
        let record = f.partition(key).await;
        let expected = match change {
            PartitionChange::Already(PartitionState::Pending) => PartitionState::Failed,
            PartitionChange::Done(PartitionState::Failed) => PartitionState::Pending,
            other => panic!("{other:?}"),
        };
        assert_eq!((record.state(), record.attempt_count), (expected, 1));
        assert_eq!(record.work.is_some(), expected == PartitionState::Pending);
    }
}

// PAR-7
pub async fn marking_keeps_whatever_the_message_was(f: &Fixture) {
    f.ask_for(&[day(1)], at(0)).await;
    let claimed = f.take(at(1)).await;
    let long = "é".repeat(10_000);
    f.judge(&claimed, at(2), rejected(&long)).await;
    let kept = f.partition(&day(1)).await.error_message.expect("a message");
    f.change_one(PartitionAction::MarkTerminal, &day(1), at(3)).await;
    let marked = f.partition(&day(1)).await.error_message.expect("a message");
    assert_eq!(marked, format!("{TERMINAL_MARK} {kept}"));
    f.change_one(PartitionAction::ClearTerminal, &day(1), at(4)).await;
    assert_eq!(f.partition(&day(1)).await.error_message, Some(kept));
}
