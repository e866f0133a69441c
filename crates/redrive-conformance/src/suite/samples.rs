//! Fixtures for runs.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use redrive_core::{Decision, Epoch, Failure, GiveUpReason, RunId};
use serde_json::json;

use super::Fixture;
use redrive_store::{
    Categories, ClaimRequest, ClaimedRun, JournalEntry, JournalFilter, NewRun, Operator,
    RunCompletion, RunFinish, RunRecord, SubmittedRun, Verdict, WorkerId, Written,
};

/// A moment, so many seconds into a day in 2026.
pub(super) fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-03-01T00:00:00Z".parse().expect("a valid time");
    start + SignedDuration::from_secs(seconds)
}

/// A run submitted at a moment.
pub(super) fn run(queue: &str, category: &str, submitted_at: Timestamp) -> NewRun {
    NewRun::new(queue, &json!({ "n": 1 }), submitted_at)
        .and_then(|run| run.with_category(category))
        .expect("a valid run")
}

/// A claim of up to `limit` runs of queue `q`, held for a minute.
pub(super) fn claim_of(limit: u32, now: Timestamp) -> ClaimRequest {
    ClaimRequest {
        queue: "q".to_owned(),
        categories: Categories::All,
        limit,
        owner: WorkerId("w1".to_owned()),
        lease_until: now + SignedDuration::from_secs(60),
        now,
        gates: Default::default(),
    }
}

pub(super) fn passed() -> RunCompletion {
    RunCompletion::Judged { verdict: Verdict::Passed, result: None }
}

pub(super) fn retry(now: Timestamp, delay: Duration, counted: bool) -> RunCompletion {
    let hint = (!counted).then_some(delay);
    let at = now + SignedDuration::try_from(delay).expect("a short delay");
    RunCompletion::Failed {
        failure: Failure::http(if counted { 500 } else { 429 }, hint, "busy"),
        decision: Decision::RetryAt { at, delay, counted },
    }
}

pub(super) fn give_up(reason: GiveUpReason) -> RunCompletion {
    RunCompletion::Failed {
        failure: Failure::http(410, None, "gone"),
        decision: Decision::GiveUp { reason },
    }
}

/// The end of an attempt that took a second.
pub(super) fn finish(
    run: &ClaimedRun,
    ended_at: Timestamp,
    completion: RunCompletion,
) -> RunFinish {
    RunFinish {
        id: run.id,
        epoch: run.epoch,
        attempt: run.attempt,
        history: run.history,
        started_at: ended_at - SignedDuration::from_secs(1),
        ended_at,
        worker: WorkerId("w1".to_owned()),
        completion,
        gates: None,
    }
}

/// Someone who wants something changed, and says why.
pub(super) fn operator(at: Timestamp) -> Operator {
    Operator { actor: "ada".to_owned(), at, reason: Some("looks wrong".to_owned()) }
}

/// An entry whose columns all differ, so that two that change places are noticed.
pub(super) fn distinct_entry(unit: &str, at: Timestamp) -> JournalEntry {
    JournalEntry {
        at,
        actor: "actor-a".to_owned(),
        action: "unit.change".to_owned(),
        unit: Some(unit.to_owned()),
        filter: Some(r#"{"filter":1}"#.to_owned()),
        details: r#"{"details":2}"#.to_owned(),
        dedupe_key: Some(format!("key of {unit}")),
    }
}

impl Fixture {
    /// Submits runs that must be accepted.
    pub(super) async fn submit(&self, runs: &[NewRun], now: Timestamp) -> Vec<RunId> {
        let submitted = self.store.submit_runs(runs, now).await.expect("submitted");
        let accepted = |submitted| match submitted {
            SubmittedRun::Accepted(id) => id,
            refused => panic!("not accepted: {refused:?}"),
        };
        submitted.into_iter().map(accepted).collect()
    }

    pub(super) async fn claim(&self, request: &ClaimRequest) -> Vec<ClaimedRun> {
        self.store.claim_runs(request).await.expect("claimed")
    }

    /// The one run that a claim takes.
    pub(super) async fn claim_one(&self, now: Timestamp) -> ClaimedRun {
        let mut claimed = self.claim(&claim_of(1, now)).await;
        claimed.pop().expect("a run to claim")
    }

    /// The one run that a claim takes from a queue.
    pub(super) async fn claim_from(&self, queue: &str, now: Timestamp) -> ClaimedRun {
        let request = ClaimRequest { queue: queue.to_owned(), ..claim_of(1, now) };
        self.claim(&request).await.pop().expect("a run to claim")
    }

    /// Ends an attempt, which must be applied.
    pub(super) async fn end(
        &self,
        run: &ClaimedRun,
        ended_at: Timestamp,
        completion: RunCompletion,
    ) {
        let written = self.store.finish_runs(&[finish(run, ended_at, completion)], ended_at).await;
        assert_eq!(written.expect("finished"), [Written::Applied]);
    }

    pub(super) async fn run(&self, id: RunId) -> RunRecord {
        let mut runs = self.store.runs_by_id(&[id]).await.expect("read");
        runs.pop().expect("the run is there")
    }

    /// What the journal says of a run, or of everything.
    pub(super) async fn told(&self, id: Option<RunId>) -> Vec<JournalEntry> {
        let filter = JournalFilter { unit: id.map(|id| format!("run:{id}")), action: None };
        let page = self.store.journal_page(&filter, 0, 1_000).await.expect("read");
        page.into_iter().map(|record| record.entry).collect()
    }
}

/// The same lease one epoch ago.
pub(super) fn before(epoch: Epoch) -> Epoch {
    Epoch(epoch.0 - 1)
}
