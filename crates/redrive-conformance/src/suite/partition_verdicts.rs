//! Verdicts: state, ledger and journal change together, once, and never replace a success.

use redrive_core::{
    AttemptNumber, Cause, Epoch, Failure, PartitionRunId, PartitionState, PartitionStatus,
};

use super::{
    Fixture,
    partition_samples::{
        REPROCESS, RETRY, accepted, claim_of, day, done, later, rejected, run_id, verdict,
    },
    samples::at,
};
use redrive_store::{
    AttemptOutcome, LeaseRef, LeaseRelease, Leased, PartitionAction, PartitionFinish,
    PartitionRecord, PartitionVerdict, WorkKind, WorkerId, Written,
};

/// What has authority.
fn authority(record: &PartitionRecord) -> (PartitionStatus, Option<&PartitionRunId>, Option<u64>) {
    (record.status, record.current_run_id.as_ref(), record.record_count)
}

// PAR-1, PAR-5, PAR-6
pub async fn an_accepted_partition_names_its_run(f: &Fixture) {
    f.ask_for(&[day(1)], at(0)).await;
    let claimed = f.take(at(1)).await;
    f.judge(&claimed, at(3), accepted(42)).await;
    let good = f.partition(&day(1)).await;
    assert_eq!(authority(&good), (PartitionStatus::Success, Some(&claimed.run_id), Some(42)));
    assert_eq!((good.schema_version.as_deref(), &good.error_message), (Some("2"), &None));
    assert_eq!((good.attempt_count, good.updated_at), (1, at(3)));
    assert_eq!((good.first_attempt_at, &good.work), (Some(at(2)), &None));
    let [attempt] = &f.partition_attempts(&day(1)).await[..] else { panic!("one attempt") };
    assert_eq!((attempt.attempt, attempt.outcome), (AttemptNumber(1), AttemptOutcome::Success));
    assert_eq!(attempt.run_id.as_deref(), Some(claimed.run_id.as_str()));
    assert_eq!((attempt.started_at, attempt.ended_at), (at(2), at(3)));
    assert_eq!((attempt.counted, attempt.worker.as_str()), (true, "w1"));
    assert_eq!(f.actions_on(&day(1)).await, ["partition.backfill"], "the ledger has the rest");
    assert_eq!(f.claim_partitions(&claim_of(5, 2, at(9_999))).await, []);
}

// PAR-4, PAR-5, PAR-6
pub async fn a_rejected_partition_says_why_and_has_no_run(f: &Fixture) {
    f.ask_for(&[day(1)], at(0)).await;
    let claimed = f.take(at(1)).await;
    f.judge(&claimed, at(3), rejected("no raw partition: exit 1")).await;
    let bad = f.partition(&day(1)).await;
    assert_eq!(authority(&bad), (PartitionStatus::Failed, None, None));
    assert_eq!(bad.error_message.as_deref(), Some("no raw partition: exit 1"));
    assert_eq!((bad.attempt_count, bad.work), (1, None));
    let [attempt] = &f.partition_attempts(&day(1)).await[..] else { panic!("one attempt") };
    assert_eq!(attempt.outcome, AttemptOutcome::Failed);
    assert_eq!(
        (attempt.code.as_deref(), attempt.cause),
        (Some("too_few_rows"), Some(Cause::Validator))
    );
    assert_eq!(attempt.message.as_deref(), Some("no raw partition: exit 1"));
    assert_eq!(attempt.run_id.as_deref(), Some(claimed.run_id.as_str()));
    assert_eq!(f.claim_partitions(&claim_of(5, 2, at(9_999))).await, [], "never by itself");
}

// PAR-6
pub async fn every_verdict_counts_once_and_numbers_have_no_gaps(f: &Fixture) {
    f.ask_for(&[day(1)], at(0)).await;
    let mut now = 10;
    for n in 1..=6_u32 {
        let claimed = f.take(at(now)).await;
        assert_eq!(claimed.attempt, AttemptNumber(n));
        let judged = if n == 4 { accepted(1) } else { rejected("no rows") };
        f.judge(&claimed, at(now + 1), judged).await;
        let judged = f.partition(&day(1)).await;
        assert_eq!((judged.attempt_count, judged.error_message.is_none()), (n, n >= 4));
        let again = if n < 4 { RETRY } else { REPROCESS };
        f.change_one(again, &day(1), at(now + 2)).await;
        now += 10;
    }
    let numbers: Vec<u32> =
        f.partition_attempts(&day(1)).await.iter().map(|row| row.attempt.0).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    assert_eq!(f.partition(&day(1)).await.first_attempt_at, Some(at(10)), "the age goes on");
}

// PAR-5
pub async fn a_reprocess_that_fails_leaves_the_success_as_it_was(f: &Fixture) {
    f.partition_in(PartitionState::Success, &day(1)).await;
    let good = f.partition(&day(1)).await;
    assert_eq!(f.change_one(REPROCESS, &day(1), at(20)).await, done(PartitionState::Success));
    let asked = f.partition(&day(1)).await;
    assert_eq!((authority(&asked), asked.updated_at), (authority(&good), good.updated_at));
    let claimed = f.take(at(21)).await;
    assert_eq!(claimed.request.kind, WorkKind::Reprocess);
    assert_eq!(authority(&f.partition(&day(1)).await), authority(&good), "while it runs");
    f.judge(&claimed, at(22), rejected("no rows")).await;
    let after = f.partition(&day(1)).await;
    let last_failure = after.last_failure.clone();
    assert_eq!(last_failure.as_ref().map(|failure| failure.at), Some(at(22)));
    let expected = PartitionRecord { attempt_count: 2, updated_at: at(22), last_failure, ..good };
    assert_eq!(after, expected, "only the count, the time and the last failure moved on");
    let attempts = f.partition_attempts(&day(1)).await;
    assert_eq!((attempts.len(), attempts[1].outcome), (2, AttemptOutcome::Failed));
    assert_eq!(attempts[1].message.as_deref(), Some("no rows"));
}

// PAR-5
pub async fn a_reprocess_that_succeeds_replaces_the_run(f: &Fixture) {
    f.partition_in(PartitionState::Reprocessing, &day(1)).await;
    let claimed = f.take(at(21)).await;
    f.judge(&claimed, at(22), accepted(99)).await;
    let after = f.partition(&day(1)).await;
    assert_eq!(authority(&after), (PartitionStatus::Success, Some(&claimed.run_id), Some(99)));
    assert_eq!((after.attempt_count, after.state()), (2, PartitionState::Success));
    let runs: Vec<_> =
        f.partition_attempts(&day(1)).await.into_iter().map(|row| row.run_id).collect();
    assert_eq!(runs.len(), 2, "the run before is still in the ledger");
    assert_ne!(runs[0], runs[1]);
}

// PAR-5, PAR-10
pub async fn a_fenced_reprocess_changes_nothing(f: &Fixture) {
    f.partition_in(PartitionState::Reprocessing, &day(1)).await;
    let old = f.take(at(21)).await;
    let back =
        LeaseRelease { lease: old.lease, owner: WorkerId("w1".into()), why: "shutdown".into() };
    let back = f.store.release_leases(Leased::Partition, &[back], at(22)).await;
    assert_eq!(back.expect("answered"), [Written::Applied]);
    let before = f.partition(&day(1)).await;
    for judged in [accepted(7), rejected("no rows")] {
        assert_eq!(f.judging(&old, at(23), judged).await, Written::Stale);
    }
    assert_eq!(f.partition(&day(1)).await, before);
    assert_eq!(f.partition_attempts(&day(1)).await.len(), 1);
}

// PAR-5
pub async fn an_older_run_never_takes_authority_back(f: &Fixture) {
    f.partition_in(PartitionState::Reprocessing, &day(1)).await;
    let older = f.take(at(21)).await;
    // Its worker is taken for lost, and the partition is reprocessed once more.
    let lost = Failure::lost_worker("no word from w1");
    f.judge(&older, at(90), PartitionVerdict::Rejected { failure: lost }).await;
    f.change_one(REPROCESS, &day(1), at(91)).await;
    let newer = f.take(at(92)).await;
    assert_ne!(newer.lease.id, older.lease.id, "every request has a row of its own");
    assert_eq!(f.judging(&older, at(93), accepted(1)).await, Written::Stale, "while it runs");
    f.judge(&newer, at(94), accepted(2)).await;
    let good = f.partition(&day(1)).await;
    assert_eq!(f.judging(&older, at(95), accepted(1)).await, Written::Stale, "after it ended");
    assert_eq!(f.partition(&day(1)).await, good);
    assert_eq!(good.current_run_id, Some(newer.run_id));
    assert_eq!((good.attempt_count, f.partition_attempts(&day(1)).await.len()), (3, 3));
}

// PAR-5, PAR-10
pub async fn only_who_holds_a_partition_for_a_run_can_judge_it(f: &Fixture) {
    f.ask_for(&[day(1), day(2)], at(0)).await;
    let held = f.claim_partitions(&claim_of(2, 0, at(1))).await;
    let before = (f.partition(&day(1)).await, f.partition(&day(2)).await);
    let finish = verdict(&held[0], at(2), accepted(1));
    let wrong = [
        PartitionFinish { lease: later(held[0].lease), ..finish.clone() },
        PartitionFinish { lease: LeaseRef { epoch: Epoch(0), ..held[0].lease }, ..finish.clone() },
        PartitionFinish { lease: held[1].lease, ..finish.clone() },
        PartitionFinish { run_id: held[1].run_id.clone(), ..finish.clone() },
        PartitionFinish { run_id: run_id("another"), ..finish.clone() },
        PartitionFinish { attempt: AttemptNumber(2), ..finish.clone() },
        PartitionFinish { key: day(2), ..finish.clone() },
        PartitionFinish { key: day(9), ..finish.clone() },
    ];
    let written = f.store.finish_partitions(&wrong).await.expect("answered");
    assert_eq!(written, [Written::Stale; 8]);
    assert_eq!((f.partition(&day(1)).await, f.partition(&day(2)).await), before);
    assert_eq!(f.partition_attempts(&day(1)).await, []);

    let mixed = [wrong[0].clone(), finish.clone(), finish, verdict(&held[1], at(2), rejected("x"))];
    let written = f.store.finish_partitions(&mixed).await.expect("answered");
    let expected = [Written::Stale, Written::Applied, Written::Stale, Written::Applied];
    assert_eq!(written, expected, "a stale verdict does not disturb its batch");
    assert_eq!(f.partition_attempts(&day(1)).await.len(), 1);
    assert_eq!(f.partition_state(&day(2)).await, PartitionState::Failed);
}

// PAR-4, PAR-6
pub async fn a_lost_workers_partition_is_judged_and_told_in_the_journal(f: &Fixture) {
    f.ask_for(&[day(1)], at(0)).await;
    let claimed = f.take(at(1)).await;
    let failure = Failure::lost_worker("no word from w1");
    f.judge(&claimed, at(90), PartitionVerdict::Rejected { failure }).await;
    assert_eq!(f.partition_state(&day(1)).await, PartitionState::Failed);
    assert_eq!(f.partition_attempts(&day(1)).await[0].cause, Some(Cause::LostWorker));
    let told = f.told_of(&day(1)).await.pop().expect("told");
    assert_eq!(told.action, "partition.lease_lost");
    for part in [r#""attempt":1"#, r#""epoch":1"#, claimed.run_id.as_str()] {
        assert!(told.details.contains(part), "{}", told.details);
    }
}

// PAR-5
pub async fn a_late_verdict_on_a_failed_partition_only_counts(f: &Fixture) {
    f.partition_in(PartitionState::Failed, &day(1)).await;
    f.change_one(RETRY, &day(1), at(20)).await;
    let claimed = f.take(at(21)).await;
    // No command leads here: somebody with a database shell does.
    f.raw.execute("UPDATE partition_state SET status = 'failed'").await.expect("changed");
    assert_eq!(f.judging(&claimed, at(22), accepted(1)).await, Written::Stale, "not by a verdict");
    f.judge(&claimed, at(23), rejected("still no rows")).await;
    let failed = f.partition(&day(1)).await;
    assert_eq!((failed.status, failed.attempt_count), (PartitionStatus::Failed, 2));
    assert_eq!(failed.error_message.as_deref(), Some("still no rows"));
    assert_eq!((failed.current_run_id, failed.work), (None, None));
}

// PAR-4
pub async fn no_verdict_can_write_the_terminal_mark(f: &Fixture) {
    f.ask_for(&[day(1)], at(0)).await;
    let claimed = f.take(at(1)).await;
    f.judge(&claimed, at(2), rejected("[terminal] please [terminal]")).await;
    let failed = f.partition(&day(1)).await;
    assert_eq!(failed.error_message.as_deref(), Some("(terminal) please (terminal)"));
    assert_eq!(failed.state(), PartitionState::Failed);
    let attempts = f.partition_attempts(&day(1)).await;
    assert_eq!(attempts[0].message.as_deref(), Some("(terminal) please (terminal)"));
    assert_eq!(f.change_one(RETRY, &day(1), at(3)).await, done(PartitionState::Failed));
}

// PAR-4
pub async fn foreign_text_about_a_partition_is_kept_whatever_it_holds(f: &Fixture) {
    let huge = "x".repeat(1_000_000);
    f.ask_for(&[day(1)], at(0)).await;
    for (n, text) in (1..).zip(["", "NUL \0 inside", "\x1b[2Jgone", "日本語", &huge]) {
        let claimed = f.take(at(n * 10)).await;
        f.judge(&claimed, at(n * 10 + 1), rejected(text)).await;
        let kept = f.partition(&day(1)).await.error_message.expect("a message");
        assert!(!kept.is_empty() && !kept.contains(['\0', '\x1b']) && kept.len() < 10_000);
        let attempts = f.partition_attempts(&day(1)).await;
        assert_eq!(attempts.last().and_then(|row| row.message.clone()), Some(kept));
        f.change_one(RETRY, &day(1), at(n * 10 + 2)).await;
    }
    let claimed = f.take(at(100)).await;
    let schema_version = Some("v\0\x1b".to_owned());
    let judged = PartitionVerdict::Accepted { record_count: 0, schema_version };
    f.judge(&claimed, at(101), judged).await;
    assert_eq!(f.partition(&day(1)).await.schema_version.as_deref(), Some("v\\u{0}\\u{1b}"));
}

// PAR-5, PAR-10
pub async fn a_verdict_a_release_and_the_reaper_at_once_end_an_attempt_once(f: &Fixture) {
    let keys: Vec<_> = (1..=30).map(day).collect();
    f.ask_for(&keys, at(0)).await;
    let held = f.claim_partitions(&claim_of(30, 0, at(1))).await;
    let verdicts: Vec<_> = held.iter().map(|one| verdict(one, at(2), accepted(1))).collect();
    let lost = |one| {
        let failure = Failure::lost_worker("no word from w1");
        verdict(one, at(2), PartitionVerdict::Rejected { failure })
    };
    let losses: Vec<_> = held.iter().rev().map(lost).collect();
    let backs: Vec<LeaseRelease> = held
        .iter()
        .map(|one| LeaseRelease { lease: one.lease, owner: WorkerId("w1".into()), why: "x".into() })
        .collect();
    let (judge, reaper, worker) = (f.store.clone(), f.store.clone(), f.store.clone());
    let judging = tokio::spawn(async move { in_steps(&*judge, &verdicts).await });
    let reaping = tokio::spawn(async move { in_steps(&*reaper, &losses).await });
    let returning = tokio::spawn(async move {
        let mut written = Vec::new();
        for batch in backs.chunks(4) {
            let batch = worker.release_leases(Leased::Partition, batch, at(2)).await;
            written.extend(batch.expect("answered"));
        }
        written
    });
    let judged = judging.await.expect("judged");
    let reaped: Vec<_> = reaping.await.expect("reaped").into_iter().rev().collect();
    let returned = returning.await.expect("returned");
    for (n, one) in held.iter().enumerate() {
        let ends = [judged[n], reaped[n], returned[n]];
        let applied = ends.iter().filter(|end| **end == Written::Applied).count();
        assert_eq!(applied, 1, "{ends:?}");
        let record = f.partition(&one.key).await;
        let attempts = f.partition_attempts(&one.key).await.len();
        let expected = match ends {
            [Written::Applied, ..] => (PartitionState::Success, 1, false),
            [_, Written::Applied, _] => (PartitionState::Failed, 1, false),
            _ => (PartitionState::Pending, 0, true),
        };
        assert_eq!((record.state(), attempts, record.work.is_some()), expected);
        assert_eq!(record.attempt_count as usize, attempts);
    }
}

async fn in_steps(store: &dyn redrive_store::Store, verdicts: &[PartitionFinish]) -> Vec<Written> {
    let mut written = Vec::new();
    for batch in verdicts.chunks(4) {
        written.extend(store.finish_partitions(batch).await.expect("answered"));
    }
    written
}

// PAR-5
pub async fn a_paused_reprocess_keeps_the_success_and_the_pause(f: &Fixture) {
    f.partition_in(PartitionState::Reprocessing, &day(1)).await;
    let claimed = f.take(at(20)).await;
    f.change_one(PartitionAction::Pause, &day(1), at(21)).await;
    f.judge(&claimed, at(22), accepted(5)).await;
    let good = f.partition(&day(1)).await;
    assert_eq!((good.state(), good.record_count), (PartitionState::Success, Some(5)));
    assert!(good.paused().is_some());
    f.change_one(PartitionAction::Resume, &day(1), at(23)).await;
    assert_eq!(f.partition(&day(1)).await.work, None, "nothing is outstanding");
}
