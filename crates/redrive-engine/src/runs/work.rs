//! Runs of one queue, as work for the loop.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Cause, Decision, Epoch, Failure, History, HumanDuration, JitterKey, JitterSeed,
    Policy, RunId, RunStatus, Unit, decide, named,
};
use redrive_store::{
    Backlog, Categories, ClaimRequest, ClaimedRun, ExpiredLease, LeaseRef, LeaseRelease, Leased,
    Result, RunEnding, RunFinish, RunRecord, Store, Verdict, WorkerId, Written,
};
use serde_json::{Map, Value};

use crate::{
    handlers::handler::{Call, Handler, Outcome},
    traces::{TracedAttempt, Traces},
    worker::work::{Ending, Work, WorkerLimits},
};
use redrive_retry::{Clock, Stop};

/// A queue: who handles its runs, and how.
#[derive(Clone)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Which categories are taken.
    pub categories: Categories,
    /// Who handles them.
    pub handler: Arc<dyn Handler>,
    /// When a failed run is tried again.
    pub policy: Policy,
    /// How long an attempt may take.
    pub time_limit: Duration,
    /// How many at once, and how patiently.
    pub limits: WorkerLimits,
}

/// Does the runs of a queue.
pub(crate) struct RunWork {
    pub(crate) queue: Queue,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) worker: WorkerId,
    pub(crate) jitter_seed: JitterSeed,
    pub(crate) traces: Traces,
}

impl RunWork {
    fn call(&self, run: &ClaimedRun) -> Call {
        let payload = serde_json::from_str(&run.payload).unwrap_or(Value::Null);
        let details = Map::from_iter([
            ("queue".to_owned(), self.queue.name.clone().into()),
            ("category".to_owned(), run.category.clone().into()),
            ("payload".to_owned(), payload),
        ]);
        let mut call =
            Call { unit: Unit::Run(run.id), attempt: run.attempt, run_id: None, details };
        self.traces.add_traceparent(&mut call);
        call
    }

    /// The age of a run counts from its first attempt, which may be this one.
    fn fail(
        &self,
        id: RunId,
        history: History,
        failure: Failure,
        started_at: Timestamp,
        now: Timestamp,
    ) -> RunEnding {
        let first_attempt_at = history.first_attempt_at.or(Some(started_at));
        let history = History { first_attempt_at, ..history };
        let jitter = JitterKey::new(self.jitter_seed, &Unit::Run(id));
        let decision = decide(&self.queue.policy, &history, &failure, now, jitter);
        RunEnding::Failed { failure, decision }
    }

    fn finish_of_lost(&self, run: &RunRecord, expired: &ExpiredLease) -> RunFinish {
        let now = self.clock.now();
        let message = format!("no word from worker {} since its lease ended", expired.owner);
        let history = History {
            counted: run.retry_count,
            deferrals: run.deferrals,
            first_attempt_at: run.first_attempt_at,
        };
        RunFinish {
            id: run.id,
            epoch: expired.lease.epoch,
            attempt: AttemptNumber(run.attempts.saturating_add(1)),
            history,
            started_at: now,
            ended_at: now,
            worker: expired.owner.clone(),
            ending: self.fail(run.id, history, Failure::lost_worker(&message), now, now),
        }
    }
}

#[async_trait]
impl Work for RunWork {
    type Unit = ClaimedRun;
    type Outcome = Outcome;
    type End = RunFinish;

    fn name(&self) -> &str {
        &self.queue.name
    }

    fn limits(&self) -> WorkerLimits {
        self.queue.limits.within(self.queue.handler.capacity())
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn lease_now(&self) -> Timestamp {
        self.store.now()
    }

    fn lease_clock_can_be_set(&self) -> bool {
        self.store.clock_can_be_set()
    }

    async fn claim(&self, limit: u32, until: Timestamp) -> Result<Vec<ClaimedRun>> {
        let request = ClaimRequest {
            queue: self.queue.name.clone(),
            categories: self.queue.categories.clone(),
            limit,
            owner: self.worker.clone(),
            lease_until: until,
            now: self.clock.now(),
        };
        self.store.claim_runs(&request).await
    }

    fn lease(&self, run: &ClaimedRun) -> LeaseRef {
        LeaseRef { id: run.id.0, epoch: run.epoch }
    }

    async fn handle(&self, run: &ClaimedRun, stop: Stop) -> Outcome {
        log_start(&self.queue, run);
        self.queue.handler.handle(&self.call(run), self.queue.time_limit, stop).await
    }

    fn end(
        &self,
        run: &ClaimedRun,
        outcome: Outcome,
        started_at: Timestamp,
        ended_at: Timestamp,
    ) -> Ending<RunFinish> {
        let ending = match outcome {
            Outcome::Stopped => return Ending::LeaseRelease,
            Outcome::Answered { value, verdict } => RunEnding::Judged {
                verdict: verdict.unwrap_or(Verdict::Passed),
                result: value.map(|value| bounded(&value)),
            },
            Outcome::Failed(failure) => {
                self.fail(run.id, run.history, failure, started_at, ended_at)
            }
            Outcome::Skipped(why) => {
                let message = format!("a run cannot be skipped: {why}");
                let failure = Failure::named(named::BAD_REPLY, Cause::Handler, &message);
                self.fail(run.id, run.history, failure, started_at, ended_at)
            }
        };
        Ending::Finish(RunFinish {
            id: run.id,
            epoch: run.epoch,
            attempt: run.attempt,
            history: run.history,
            started_at,
            ended_at,
            worker: self.worker.clone(),
            ending,
        })
    }

    fn end_lease(&self, end: &RunFinish) -> LeaseRef {
        LeaseRef { id: end.id.0, epoch: end.epoch }
    }

    async fn finish(&self, ends: &[RunFinish]) -> Result<Vec<Written>> {
        if ends.is_empty() {
            return Ok(Vec::new());
        }
        self.store.finish_runs(ends, self.clock.now()).await
    }

    fn written(&self, end: &RunFinish, written: Written) {
        log_end(&self.queue, end, written);
    }

    fn attempt(&self, end: &RunFinish) -> Option<TracedAttempt> {
        Some(TracedAttempt {
            unit: Unit::Run(end.id),
            place: self.queue.name.clone(),
            details: vec![("queue", self.queue.name.clone())],
            row: end.ledger_row(),
        })
    }

    fn traces(&self) -> Option<&Traces> {
        Some(&self.traces)
    }

    async fn renew(&self, leases: &[LeaseRef], until: Timestamp) -> Result<Vec<Written>> {
        self.store.renew_leases(Leased::Run, leases, until).await
    }

    async fn release_leases(&self, leases: &[LeaseRef], why: &str) -> Result<Vec<Written>> {
        let releases = LeaseRelease::each(leases, &self.worker, why);
        self.store.release_leases(Leased::Run, &releases, self.clock.now()).await
    }

    async fn expired(&self, by: Timestamp, after: i64, limit: u32) -> Result<Vec<ExpiredLease>> {
        self.store.expired_leases(Leased::Run, by, after, limit).await
    }

    async fn next_lease_end(&self, after: Timestamp) -> Result<Option<Timestamp>> {
        self.store.next_lease_end(Leased::Run, after).await
    }

    async fn lost(&self, expired: &[ExpiredLease]) -> Result<Vec<RunFinish>> {
        let ids: Vec<RunId> = expired.iter().map(|expired| RunId(expired.lease.id)).collect();
        let runs = self.store.runs_by_id(&ids).await?;
        let ours = runs
            .iter()
            .filter(|run| run.queue == self.queue.name && run.status == RunStatus::Processing);
        let end = |run: &RunRecord| {
            let of_run = |expired: &&ExpiredLease| expired.lease.id == run.id.0;
            let expired = expired.iter().find(of_run)?;
            (expired.lease.epoch == run.lease_epoch).then(|| self.finish_of_lost(run, expired))
        };
        Ok(ours.filter_map(end).collect())
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.store.backlog(&self.queue.name, &self.queue.categories).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>> {
        self.store.next_due(&self.queue.name, &self.queue.categories).await
    }
}

/// The longest answer that is kept, in bytes of JSON. A longer one is replaced by a note that says
/// so: the outcome is recorded whatever the answer.
const MAX_RESULT_BYTES: usize = 64 * 1024;

fn bounded(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= MAX_RESULT_BYTES {
        return text;
    }
    serde_json::json!({ "truncated": true, "bytes": text.len() }).to_string()
}

/// An initial attempt, a retry n of m, or another try after a wait that did not count (RUN-5).
fn log_start(queue: &Queue, run: &ClaimedRun) {
    let (id, attempt) = (run.id.0, run.attempt.0);
    let History { counted, deferrals, .. } = run.history;
    if deferrals > 0 {
        tracing::info!(run = id, queue = queue.name, attempt, "again, after waiting as asked");
    } else if counted == 0 {
        tracing::debug!(run = id, queue = queue.name, attempt, "initial attempt");
    } else if let Some(max) = queue.policy.spec().max_attempts {
        let of = max.saturating_sub(1);
        tracing::info!(run = id, queue = queue.name, attempt, "retry {counted} of {of}");
    } else {
        tracing::info!(run = id, queue = queue.name, attempt, "retry {counted}");
    }
}

/// How an attempt ended, once that is written (RUN-5).
fn log_end(queue: &Queue, end: &RunFinish, written: Written) {
    let (run, queue, attempt) = (end.id.0, queue.name.as_str(), end.attempt.0);
    let Epoch(epoch) = end.epoch;
    if written == Written::Stale {
        tracing::warn!(run, queue, attempt, epoch, "a late result was refused");
        return;
    }
    match &end.ending {
        RunEnding::Judged { verdict, .. } => {
            let how = match verdict {
                Verdict::Passed => "succeeded",
                Verdict::NeedsReview => "judged needs_review",
                Verdict::Failed => "judged failed",
            };
            match attempt.saturating_sub(1) {
                0 => tracing::debug!(run, queue, attempt, "{how}"),
                1 => tracing::info!(run, queue, attempt, "{how} after 1 retry"),
                retries => tracing::info!(run, queue, attempt, "{how} after {retries} retries"),
            }
        }
        RunEnding::Failed { failure, decision } => {
            let (class, code) = (failure.class().name(), failure.code().to_string());
            let error = failure.message().as_str();
            match decision {
                Decision::RetryAt { delay, .. } => {
                    let delay = HumanDuration::from(*delay);
                    tracing::info!(
                        run,
                        queue,
                        attempt,
                        class,
                        code,
                        error,
                        "failed; retry in {delay}"
                    );
                }
                Decision::GiveUp { reason } => {
                    tracing::warn!(run, queue, attempt, class, code, error, "given up: {reason}");
                }
            }
        }
    }
}
