//! Finishing runs: state, ledger and journal change together, once.

use std::time::Duration;

use redrive_core::{AttemptNumber, Decision, Epoch, Failure, GiveUpReason, RunStatus};

use super::{
    Fixture,
    samples::{at, before, claim_of, finish, give_up, passed, retry, run},
};
use redrive_store::{
    AttemptOutcome, AttemptRecord, JournalFilter, RunCompletion, UnitKind, UnitRow, Verdict,
    Written,
};

impl Fixture {
    async fn attempts(&self, id: redrive_core::RunId) -> Vec<AttemptRecord> {
        let unit = UnitRow::new(UnitKind::Run, id.0);
        self.store.attempts_of(&unit, AttemptNumber(0), 100).await.expect("read")
    }

    async fn journal_actions(&self, id: redrive_core::RunId) -> Vec<(String, String)> {
        let filter = JournalFilter { unit: Some(format!("run:{id}")), action: None };
        let page = self.store.journal_page(&filter, 0, 100).await.expect("read");
        page.into_iter().map(|record| (record.entry.action, record.entry.details)).collect()
    }
}

// RUN-1, RUN-3
pub async fn a_verdict_is_stored_and_clears_the_retry_fields(f: &Fixture) {
    let verdicts = [
        (Verdict::Passed, RunStatus::Passed),
        (Verdict::NeedsReview, RunStatus::NeedsReview),
        (Verdict::Failed, RunStatus::Failed),
    ];
    for (verdict, status) in verdicts {
        let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
        let first = f.claim_one(at(1)).await;
        f.end(&first, at(2), retry(at(2), Duration::from_secs(1), true)).await;
        let second = f.claim_one(at(5)).await;
        let result = Some(r#"{"score":1}"#.to_owned());
        f.end(&second, at(6), RunCompletion::Judged { verdict, result: result.clone() }).await;

        let ended = f.run(id).await;
        assert_eq!((ended.status, ended.result), (status, result));
        assert_eq!((ended.retry_count, ended.next_retry_at, ended.due_at), (0, None, None));
        assert_eq!((ended.error_class, ended.error_message), (None, None));
        assert_eq!((ended.lease_owner, ended.lease_until, ended.attempts), (None, None, 2));
        let outcomes: Vec<_> = f.attempts(id).await.iter().map(|a| a.outcome).collect();
        assert_eq!(outcomes, [AttemptOutcome::Retrying, AttemptOutcome::Success]);
        assert_eq!(f.claim(&claim_of(10, at(9_999))).await, [], "an ended run is not claimed");
    }
}

// RUN-3
pub async fn a_scheduled_retry_counts_and_waits(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let claimed = f.claim_one(at(1)).await;
    f.end(&claimed, at(3), retry(at(3), Duration::from_millis(1_500), true)).await;

    let waiting = f.run(id).await;
    assert_eq!((waiting.status, waiting.retry_count), (RunStatus::Error, 1));
    assert_eq!(waiting.next_retry_at, Some(at(3) + Duration::from_millis(1_500)));
    assert_eq!(waiting.error_class.as_deref(), Some("retryable"));
    assert_eq!(waiting.error_message.as_deref(), Some("busy"));
    let [attempt] = &f.attempts(id).await[..] else { panic!("one attempt") };
    assert_eq!((attempt.attempt, attempt.counted), (AttemptNumber(1), true));
    assert_eq!((attempt.started_at, attempt.ended_at), (at(2), at(3)));
    assert_eq!(attempt.delay, Some(Duration::from_millis(1_500)));
    assert_eq!(attempt.code.as_deref(), Some("500"));
    assert_eq!(attempt.worker, "w1");
    assert_eq!(f.journal_actions(id).await, [], "an ordinary attempt is in the ledger alone");
}

// RUN-2, RUN-3
pub async fn a_retry_that_is_due_when_it_is_written_is_claimable_at_once(f: &Fixture) {
    let ids = f.submit(&[run("q", "", at(0)), run("q", "", at(1))], at(1)).await;
    let claimed = f.claim_one(at(2)).await;
    let completion = retry(at(3), Duration::from_secs(1), true);
    let written = f.store.finish_runs(&[finish(&claimed, at(3), completion)], at(4)).await;
    assert_eq!(written.expect("finished"), [Written::Applied]);

    let due = f.run(ids[0]).await;
    assert_eq!((due.status, due.retry_count), (RunStatus::Error, 1));
    assert_eq!((due.next_retry_at, due.ready, due.due_at), (Some(at(4)), true, None));
    // Not by the claim's own look at what is due: its time is earlier.
    let claimed = f.claim(&claim_of(2, at(3))).await;
    let claimed: Vec<_> = claimed.iter().map(|run| (run.id, run.attempt.0)).collect();
    assert_eq!(claimed, [(ids[0], 2), (ids[1], 1)]);
}

// RUN-3, POL-7
pub async fn a_wait_for_a_hint_is_not_counted(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    for n in 1..=3 {
        let now = at(n * 100);
        let claimed = f.claim_one(now).await;
        assert_eq!((claimed.history.counted, claimed.history.deferrals), (0, n as u32 - 1));
        f.end(&claimed, now, retry(now, Duration::from_secs(30), false)).await;
    }
    let waiting = f.run(id).await;
    assert_eq!((waiting.retry_count, waiting.deferrals, waiting.attempts), (0, 3, 3));
    assert_eq!(waiting.error_class.as_deref(), Some("rate_limited"));
    assert!(f.attempts(id).await.iter().all(|attempt| !attempt.counted));

    let claimed = f.claim_one(at(500)).await;
    f.end(&claimed, at(500), retry(at(500), Duration::from_secs(1), true)).await;
    let waiting = f.run(id).await;
    assert_eq!((waiting.retry_count, waiting.deferrals), (1, 0), "the row of deferrals is broken");
}

// RUN-3
pub async fn giving_up_leaves_the_error_and_tells_the_journal_why(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let claimed = f.claim_one(at(1)).await;
    f.end(&claimed, at(2), give_up(GiveUpReason::Final)).await;

    let dead = f.run(id).await;
    assert_eq!((dead.status, dead.next_retry_at), (RunStatus::Error, None));
    assert_eq!(dead.error_class.as_deref(), Some("final"));
    assert_eq!(f.attempts(id).await[0].outcome, AttemptOutcome::Failed);
    let [(action, details)] = &f.journal_actions(id).await[..] else { panic!("one entry") };
    assert_eq!(action, "run.giveup");
    assert!(details.contains(r#""reason":"final""#), "{details}");
    assert_eq!(f.claim(&claim_of(10, at(9_999))).await, []);
}

// RUN-7
pub async fn a_stale_lease_cannot_finish_a_run(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let mut claimed = f.claim_one(at(1)).await;
    for epoch in [before(claimed.epoch), Epoch(claimed.epoch.0 + 1)] {
        claimed.epoch = epoch;
        let late = finish(&claimed, at(2), passed());
        assert_eq!(f.store.finish_runs(&[late], at(2)).await.expect("answered"), [Written::Stale]);
    }
    assert_eq!(f.run(id).await.status, RunStatus::Processing);
    assert_eq!(f.attempts(id).await, [], "a refused write leaves no ledger row");
}

// RUN-7
pub async fn a_run_is_finished_once(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let claimed = f.claim_one(at(1)).await;
    f.end(&claimed, at(2), passed()).await;
    let rescue = finish(&claimed, at(3), give_up(GiveUpReason::AttemptsExhausted));
    assert_eq!(f.store.finish_runs(&[rescue], at(3)).await.expect("answered"), [Written::Stale]);
    assert_eq!(f.run(id).await.status, RunStatus::Passed, "success is not taken back");
    assert_eq!(f.attempts(id).await.len(), 1);
    assert_eq!(f.journal_actions(id).await, []);
}

// RUN-7
pub async fn a_stale_finish_does_not_disturb_its_batch(f: &Fixture) {
    let new: Vec<_> = (0..3).map(|n| run("q", "", at(n))).collect();
    f.submit(&new, at(5)).await;
    let claimed = f.claim(&claim_of(3, at(6))).await;
    let mut batch: Vec<_> = claimed.iter().map(|run| finish(run, at(7), passed())).collect();
    batch[1].epoch = before(batch[1].epoch);
    let written = f.store.finish_runs(&batch, at(7)).await.expect("answered");
    assert_eq!(written, [Written::Applied, Written::Stale, Written::Applied]);
    for (run, attempts) in claimed.iter().zip([1, 0, 1]) {
        assert_eq!(f.attempts(run.id).await.len(), attempts);
    }
}

pub async fn ledger_numbers_run_without_gaps(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    for n in 1..=5 {
        let now = at(n * 100);
        let claimed = f.claim_one(now).await;
        f.end(&claimed, now, retry(now, Duration::from_secs(1), n % 2 == 0)).await;
    }
    let numbers: Vec<u32> = f.attempts(id).await.iter().map(|a| a.attempt.0).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(f.run(id).await.attempts, 5);
}

// RUN-7
pub async fn a_lost_worker_is_told_in_the_journal(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let claimed = f.claim_one(at(1)).await;
    let completion = RunCompletion::Failed {
        failure: Failure::lost_worker("no word from w1"),
        decision: Decision::GiveUp { reason: GiveUpReason::AttemptsExhausted },
    };
    f.end(&claimed, at(90), completion).await;
    let actions: Vec<String> = f.journal_actions(id).await.into_iter().map(|(a, _)| a).collect();
    assert_eq!(actions, ["run.lease_lost", "run.giveup"]);
    assert_eq!(f.attempts(id).await[0].cause, Some(redrive_core::Cause::LostWorker));
}

pub async fn foreign_text_is_kept_whatever_it_holds(f: &Fixture) {
    let huge = "x".repeat(10_000_000);
    for text in ["", "NUL \0 inside", "\x1b[2Jgone", "\u{202e}desrever", "日本語", &huge] {
        let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
        let claimed = f.claim_one(at(1)).await;
        let failure = Failure::exit(1, text);
        let kept = failure.message().as_str().to_owned();
        let completion = RunCompletion::Failed {
            failure,
            decision: Decision::GiveUp { reason: GiveUpReason::AttemptsExhausted },
        };
        f.end(&claimed, at(2), completion).await;
        assert_eq!(f.run(id).await.error_message, Some(kept.clone()));
        assert_eq!(f.attempts(id).await[0].message, Some(kept));
    }
}
