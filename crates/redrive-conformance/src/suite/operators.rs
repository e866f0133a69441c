//! Operator actions on runs: retry and cancel.

use std::time::Duration;

use redrive_core::{AttemptNumber, Epoch, GiveUpReason, History, RunId, RunState, RunStatus};

use super::{
    Fixture,
    samples::{at, claim_of, distinct_entry, finish, give_up, operator, passed, retry, run},
};
use redrive_store::{
    DataEdit, LeaseRef, LeaseRelease, Leased, Operator, RunAction, RunChange, RunCompletion,
    UnitKind, UnitRow, Verdict, WorkerId, Written,
};

fn judged(verdict: Verdict) -> RunCompletion {
    RunCompletion::Judged { verdict, result: Some(r#"{"score":1}"#.to_owned()) }
}

impl Fixture {
    /// A run in a state, alone in its queue.
    async fn run_in(&self, state: RunState, queue: &str) -> RunId {
        let id = self.submit(&[run(queue, "", at(0))], at(0)).await[0];
        let completion = match state {
            RunState::Discovered => return id,
            RunState::Cancelled => {
                assert_eq!(
                    self.action(RunAction::Cancel, id).await,
                    RunChange::Done(RunState::Discovered)
                );
                return id;
            }
            RunState::Processing => None,
            RunState::WaitingForRetry => Some(retry(at(2), Duration::from_secs(60), true)),
            RunState::GivenUp => Some(give_up(GiveUpReason::Final)),
            RunState::Passed => Some(judged(Verdict::Passed)),
            RunState::NeedsReview => Some(judged(Verdict::NeedsReview)),
            RunState::Failed => Some(judged(Verdict::Failed)),
        };
        let claimed = self.claim_from(queue, at(1)).await;
        if let Some(completion) = completion {
            self.end(&claimed, at(2), completion).await;
        }
        id
    }

    async fn actions(&self, action: RunAction, ids: &[RunId], by: &Operator) -> Vec<RunChange> {
        match action {
            RunAction::Retry => self.store.retry_runs(ids, by).await,
            RunAction::Cancel => self.store.cancel_runs(ids, by).await,
        }
        .expect("answered")
    }

    async fn action(&self, action: RunAction, id: RunId) -> RunChange {
        self.actions(action, &[id], &operator(at(5))).await[0]
    }

    async fn state(&self, id: RunId) -> RunState {
        let run = self.run(id).await;
        RunState::of(run.status, run.next_retry_at.is_some())
    }

    async fn ledger_rows(&self, id: RunId) -> usize {
        let unit = UnitRow::new(UnitKind::Run, id.0);
        self.store.attempts_of(&unit, AttemptNumber(0), 100).await.expect("read").len()
    }
}

// RUN-6
pub async fn an_operator_moves_a_run_only_from_where_it_may(f: &Fixture) {
    for action in RunAction::ALL {
        for from in RunState::ALL {
            let what = format!("{} of a run that is {}", action.action(), from.name());
            let id = f.run_in(from, &what).await;
            let (before, told) = (f.run(id).await, f.told(Some(id)).await);
            assert_eq!(f.state(id).await, from, "{what}");
            match from.apply(action.event()) {
                Ok(to) => {
                    assert_eq!(f.action(action, id).await, RunChange::Done(from), "{what}");
                    assert_eq!(f.state(id).await, to, "{what}");
                    assert_eq!(f.told(Some(id)).await.len(), told.len() + 1, "{what}");
                }
                Err(_) => {
                    assert_eq!(f.action(action, id).await, RunChange::Refused(from), "{what}");
                    assert_eq!(f.run(id).await, before, "{what}");
                    assert_eq!(f.told(Some(id)).await, told, "{what}");
                }
            }
        }
    }
}

// RUN-6, POL-2
pub async fn a_retried_run_begins_a_new_count(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    for (second, counted) in [(10, true), (20, true), (30, false)] {
        let claimed = f.claim_one(at(second)).await;
        f.end(&claimed, at(second), retry(at(second), Duration::from_secs(1), counted)).await;
    }
    let claimed = f.claim_one(at(40)).await;
    f.end(&claimed, at(41), give_up(GiveUpReason::AttemptsExhausted)).await;
    let dead = f.run(id).await;
    assert_eq!((dead.retry_count, dead.attempts, dead.attempts_at_reset), (2, 4, 0));

    assert_eq!(f.action(RunAction::Retry, id).await, RunChange::Done(RunState::GivenUp));
    let back = f.run(id).await;
    assert_eq!((back.status, back.ready, back.due_at), (RunStatus::Discovered, true, None));
    assert_eq!((back.attempts, back.attempts_at_reset), (4, 4));
    assert_eq!((back.retry_count, back.deferrals), (0, 0));
    assert_eq!((back.next_retry_at, back.first_attempt_at), (None, None));
    assert_eq!(back.error_class, dead.error_class, "the last error stays to be read");
    assert_eq!(back.error_message.as_deref(), Some("gone"));

    let again = f.claim_one(at(50)).await;
    assert_eq!((again.attempt, again.history), (AttemptNumber(5), History::default()));
    f.end(&again, at(52), retry(at(52), Duration::from_secs(1), true)).await;
    let waiting = f.run(id).await;
    assert_eq!((waiting.retry_count, waiting.attempts_at_reset), (1, 4));
    assert_eq!(waiting.first_attempt_at, Some(at(51)));
}

// RUN-6
pub async fn a_retried_run_can_be_given_up_again(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    for attempt in 1..=3 {
        let now = at(i64::from(attempt) * 10);
        let claimed = f.claim_one(now).await;
        assert_eq!(claimed.attempt, AttemptNumber(attempt), "ledger numbers go on");
        f.end(&claimed, now, give_up(GiveUpReason::Final)).await;
        assert_eq!(f.state(id).await, RunState::GivenUp);
        assert_eq!(f.action(RunAction::Retry, id).await, RunChange::Done(RunState::GivenUp));
    }
    let actions: Vec<String> =
        f.told(Some(id)).await.into_iter().map(|entry| entry.action).collect();
    let each = ["run.giveup", "run.retry"];
    assert_eq!(actions, [each, each, each].concat());
}

// RUN-6
pub async fn a_retry_ends_every_wait(f: &Fixture) {
    let waiting = f.run_in(RunState::WaitingForRetry, "q").await;
    assert_eq!(
        f.action(RunAction::Retry, waiting).await,
        RunChange::Done(RunState::WaitingForRetry)
    );
    assert_eq!(f.claim_one(at(5)).await.id, waiting);

    let late = f.submit(&[run("q", "", at(0)).with_not_before(at(500))], at(0)).await[0];
    assert_eq!(f.action(RunAction::Cancel, late).await, RunChange::Done(RunState::Discovered));
    assert_eq!(f.action(RunAction::Retry, late).await, RunChange::Done(RunState::Cancelled));
    assert_eq!(f.run(late).await.not_before, Some(at(500)), "what was asked for is not forgotten");
    assert_eq!(f.claim_one(at(5)).await.id, late);

    let judged = f.run_in(RunState::NeedsReview, "q").await;
    assert_eq!(f.action(RunAction::Retry, judged).await, RunChange::Done(RunState::NeedsReview));
    assert!(f.run(judged).await.result.is_some(), "the last answer stays to be read");
    let claimed = f.claim_one(at(5)).await;
    f.end(&claimed, at(6), passed()).await;
    assert_eq!((claimed.id, f.run(judged).await.result), (judged, None));
}

// RUN-6
pub async fn a_cancelled_run_is_never_claimed(f: &Fixture) {
    let new = f.run_in(RunState::Discovered, "q").await;
    let later = f.submit(&[run("q", "", at(0)).with_not_before(at(70))], at(0)).await[0];
    let (waiting, due) = (
        f.run_in(RunState::WaitingForRetry, "waiting").await,
        f.run_in(RunState::WaitingForRetry, "due").await,
    );
    // A claim of a paused queue takes nothing, but makes what is due ready.
    assert!(f.store.pause_queue("due", &operator(at(61))).await.expect("answered"));
    let in_vain = redrive_store::ClaimRequest { queue: "due".to_owned(), ..claim_of(1, at(62)) };
    assert_eq!(f.claim(&in_vain).await, []);
    assert!(f.store.resume_queue("due", &operator(at(62))).await.expect("answered"));
    assert!(f.run(due).await.ready);
    let epoch = f.run(waiting).await.lease_epoch;
    for id in [new, later, waiting, due] {
        assert!(matches!(f.action(RunAction::Cancel, id).await, RunChange::Done(_)));
        let cancelled = f.run(id).await;
        assert_eq!(cancelled.status, RunStatus::Cancelled);
        assert_eq!((cancelled.ready, cancelled.due_at), (false, None));
        assert_eq!(cancelled.next_retry_at, None);
    }
    for queue in ["q", "waiting", "due"] {
        let request =
            redrive_store::ClaimRequest { queue: queue.to_owned(), ..claim_of(10, at(9_999)) };
        assert_eq!(f.claim(&request).await, [], "{queue}");
    }
    assert_eq!(f.run(waiting).await.lease_epoch, epoch, "nobody held it");
}

// RUN-6, RUN-7
pub async fn a_cancelled_running_run_refuses_its_worker(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let claimed = f.claim_one(at(1)).await;
    assert_eq!(f.action(RunAction::Cancel, id).await, RunChange::Done(RunState::Processing));
    let cancelled = f.run(id).await;
    assert_eq!((cancelled.status, cancelled.lease_epoch), (RunStatus::Cancelled, Epoch(2)));
    assert_eq!((&cancelled.lease_owner, cancelled.lease_until), (&None, None));

    let lease = LeaseRef { id: id.0, epoch: claimed.epoch };
    let renewed = f.store.renew_leases(Leased::Run, &[lease], at(500)).await.expect("answered");
    assert_eq!(renewed, [Written::Stale], "so the worker learns of it");
    let late = finish(&claimed, at(3), passed());
    assert_eq!(f.store.finish_runs(&[late], at(3)).await.expect("answered"), [Written::Stale]);
    let back = LeaseRelease { lease, owner: WorkerId("w1".to_owned()), why: "shutdown".to_owned() };
    let back = f.store.release_leases(Leased::Run, &[back], at(3)).await.expect("answered");
    assert_eq!(back, [Written::Stale]);
    let ended = f.store.expired_leases(Leased::Run, at(9_999), None, 0, 10).await.expect("read");
    assert_eq!(ended, [], "and nobody takes it for lost");
    assert_eq!(f.run(id).await, cancelled);
    assert_eq!(f.ledger_rows(id).await, 0);
}

// RUN-6, RUN-7
pub async fn a_cancelled_run_that_is_retried_still_refuses_its_old_worker(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let old = f.claim_one(at(1)).await;
    assert_eq!(f.action(RunAction::Cancel, id).await, RunChange::Done(RunState::Processing));
    assert_eq!(f.action(RunAction::Retry, id).await, RunChange::Done(RunState::Cancelled));
    let new = f.claim_one(at(6)).await;
    assert_eq!((new.attempt, new.epoch), (AttemptNumber(1), Epoch(3)));
    let late = finish(&old, at(7), passed());
    assert_eq!(f.store.finish_runs(&[late], at(7)).await.expect("answered"), [Written::Stale]);
    f.end(&new, at(8), passed()).await;
    assert_eq!(f.ledger_rows(id).await, 1);
}

// RUN-7
pub async fn a_finish_and_a_cancel_at_once_are_not_both_done(f: &Fixture) {
    let new: Vec<_> = (0..60).map(|n| run("q", "", at(n))).collect();
    let ids = f.submit(&new, at(60)).await;
    let claimed = f.claim(&claim_of(60, at(61))).await;
    let finishes: Vec<_> = claimed.iter().map(|run| finish(run, at(62), passed())).collect();
    let (finisher, canceller) = (f.store.clone(), f.store.clone());
    let finishing = tokio::spawn(async move {
        let mut written = Vec::new();
        for batch in finishes.chunks(7) {
            written.extend(finisher.finish_runs(batch, at(62)).await.expect("answered"));
        }
        written
    });
    let backwards: Vec<RunId> = ids.iter().rev().copied().collect();
    let cancelling = tokio::spawn(async move {
        let mut changes = Vec::new();
        for batch in backwards.chunks(7) {
            let batch = canceller.cancel_runs(batch, &operator(at(62))).await;
            changes.extend(batch.expect("answered"));
        }
        changes
    });
    let written = finishing.await.expect("finished");
    let changes = cancelling.await.expect("cancelled").into_iter().rev();
    for ((id, written), change) in ids.into_iter().zip(written).zip(changes) {
        match (written, change) {
            (Written::Applied, RunChange::Refused(RunState::Passed)) => {
                assert_eq!((f.state(id).await, f.ledger_rows(id).await), (RunState::Passed, 1));
            }
            (Written::Stale, RunChange::Done(RunState::Processing)) => {
                assert_eq!((f.state(id).await, f.ledger_rows(id).await), (RunState::Cancelled, 0));
            }
            both => panic!("{both:?}"),
        }
    }
}

// RUN-6
pub async fn a_run_named_twice_is_changed_once_and_answers_come_in_order(f: &Fixture) {
    let dead = f.run_in(RunState::GivenUp, "dead").await;
    let passed = f.run_in(RunState::Passed, "passed").await;
    let failed = f.run_in(RunState::Failed, "failed").await;
    let ids = [RunId(i64::MAX), failed, passed, dead, failed, RunId(-1), dead];
    let changes = f.actions(RunAction::Retry, &ids, &operator(at(5))).await;
    assert_eq!(
        changes,
        [
            RunChange::Unknown,
            RunChange::Done(RunState::Failed),
            RunChange::Refused(RunState::Passed),
            RunChange::Done(RunState::GivenUp),
            RunChange::Refused(RunState::Discovered),
            RunChange::Unknown,
            RunChange::Refused(RunState::Discovered),
        ]
    );
    let changes = f.actions(RunAction::Cancel, &[dead, dead], &operator(at(6))).await;
    assert_eq!(
        changes,
        [RunChange::Done(RunState::Discovered), RunChange::Refused(RunState::Cancelled)]
    );
    let actions: Vec<String> = f.told(None).await.into_iter().map(|entry| entry.action).collect();
    assert_eq!(actions, ["run.giveup", "run.retry", "run.retry", "run.cancel"]);
}

// OPS-3, RUN-6
pub async fn operators_are_told_in_the_journal(f: &Fixture) {
    let id = f.run_in(RunState::NeedsReview, "q").await;
    assert_eq!(f.action(RunAction::Retry, id).await, RunChange::Done(RunState::NeedsReview));
    let silent = Operator { actor: "NUL \0".to_owned(), at: at(9), reason: None };
    let changes = f.actions(RunAction::Cancel, &[id], &silent).await;
    assert_eq!(changes, [RunChange::Done(RunState::Discovered)]);

    let [retried, cancelled] = &f.told(Some(id)).await[..] else { panic!("two entries") };
    assert_eq!((retried.action.as_str(), retried.at), ("run.retry", at(5)));
    assert_eq!((retried.actor.as_str(), retried.unit.clone()), ("ada", Some(format!("run:{id}"))));
    assert_eq!(retried.details, r#"{"before":"needs_review","reason":"looks wrong"}"#);
    assert_eq!((cancelled.action.as_str(), cancelled.at), ("run.cancel", at(9)));
    assert_eq!(cancelled.actor, "NUL \\u{0}", "foreign text is cleaned");
    assert_eq!(cancelled.details, r#"{"before":"discovered","reason":null}"#);
}

// FIX-5
pub async fn an_edit_replaces_the_payload_that_was_seen(f: &Fixture) {
    let ids = f.submit(&[0, 1, 2].map(|n| run("q", "", at(n))), at(2)).await;
    assert_eq!(f.claim_one(at(3)).await.id, ids[0]);
    let mut expected = Vec::new();
    for id in &ids {
        expected.push(f.run(*id).await);
    }
    let edit = |n: usize, old: &str| DataEdit {
        id: ids[n].0,
        old: Some(old.to_owned()),
        new: r#"{"n":2}"#.to_owned(),
        journal: distinct_entry(&format!("run:{}", ids[n]), at(10)),
    };
    let edits = [edit(0, r#"{"n":1}"#), edit(1, r#"{"n":1}"#), edit(2, r#"{"n":3}"#)];
    let written = f.store.edit_runs(&edits).await.expect("answered");
    assert_eq!(written, [Written::Stale, Written::Applied, Written::Stale], "held, and changed");
    expected[1].payload = edits[1].new.clone();
    assert_eq!(f.store.runs_by_id(&ids).await.expect("read"), expected);
    assert_eq!(f.told(None).await, [edits[1].journal.clone()]);
}
