//! The runs of one queue, as work for the worker loop.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Cause, Decision, Epoch, Failure, History, HumanDuration, RunId, RunStatus, Unit,
    named,
};
use redrive_retry::Stop;
use redrive_store::{
    Backlog, ClaimRequest, ClaimedRun, ExpiredLease, LeaseRef, Leased, Result, RunCompletion,
    RunFinish, RunRecord, UnitKind, UnitRow, Verdict, Written,
};
use serde_json::{Map, Value};
use tokio::{sync::watch, time::Instant};

use crate::{
    gates::work_gates::{Start, WorkGates},
    handlers::handler::{Call, Outcome},
    logs::WorkLogs,
    runs::queue::Queue,
    traces::{TracedAttempt, Traces},
    worker::{
        failures::lost_worker,
        reporter::PlaceCounts,
        unit_leases::{StoreLeases, UnitLeases, WorkContext},
        work::{Completion, Work, WorkerLimits},
    },
};

pub(crate) struct RunWork {
    queue: Queue,
    context: WorkContext,
    leases: StoreLeases,
    gates: WorkGates,
    logs: Arc<WorkLogs>,
    counts: PlaceCounts,
}

impl RunWork {
    pub(crate) fn new(queue: Queue, context: &WorkContext) -> Self {
        let gates = context.gates(queue.gates.clone());
        let logs = WorkLogs::new(queue.limits.log, context);
        Self {
            queue,
            context: context.clone(),
            leases: context.leases(Leased::Run),
            gates,
            logs,
            counts: PlaceCounts::new(UnitKind::Run),
        }
    }

    fn call(&self, run: &ClaimedRun) -> Call {
        let payload = serde_json::from_str(&run.payload).unwrap_or(Value::Null);
        let details = Map::from_iter([
            ("queue".to_owned(), self.queue.name.clone().into()),
            ("category".to_owned(), run.category.clone().into()),
            ("payload".to_owned(), payload),
        ]);
        let (unit, attempt) = (Unit::Run(run.id), run.attempt);
        let row = UnitRow::new(UnitKind::Run, run.id.0);
        let log = self.logs.of_attempt(row, attempt, self.lease(run));
        let mut call = Call { unit, attempt, run_id: None, details, log };
        self.context.traces.add_traceparent(&mut call);
        call
    }

    fn failed(
        &self,
        id: RunId,
        history: History,
        failure: Failure,
        times: (Timestamp, Timestamp),
    ) -> RunCompletion {
        let (policy, unit) = (&self.queue.policy, Unit::Run(id));
        let decision = self.context.decide(policy, &unit, history, &failure, times);
        RunCompletion::Failed { failure, decision }
    }

    async fn finish_of_lost(&self, run: &RunRecord, expired: &ExpiredLease) -> Result<RunFinish> {
        let (started_at, ended_at) = self.context.times_of_lost(expired);
        let unit = UnitRow::new(UnitKind::Run, run.id.0);
        let lost =
            self.context.lost_before(&self.queue.policy, &unit, run.attempts_at_reset).await?;
        let mut history = History {
            counted: run.retry_count,
            deferrals: run.deferrals,
            lost,
            first_attempt_at: run.first_attempt_at,
            ..History::default()
        };
        let of_run = std::iter::once((run.category.as_str(), &mut history));
        self.gates.note_closed_time(&self.context, &self.queue.policy, of_run).await;
        let failure = lost_worker(&expired.owner);
        Ok(RunFinish {
            id: run.id,
            epoch: expired.lease.epoch,
            attempt: AttemptNumber(run.attempts.saturating_add(1)),
            history,
            started_at,
            ended_at,
            worker: expired.owner.clone(),
            completion: self.failed(run.id, history, failure, (started_at, ended_at)),
            gates: self.gates.passed(&run.category),
        })
    }
}

#[async_trait]
impl Work for RunWork {
    type Unit = ClaimedRun;
    type Outcome = Outcome;
    type Finish = RunFinish;

    fn name(&self) -> &str {
        &self.queue.name
    }

    fn limits(&self) -> WorkerLimits {
        self.queue.limits.within(self.queue.handler.capacity())
    }

    fn leases(&self) -> &dyn UnitLeases {
        &self.leases
    }

    async fn claim(&self, limit: u32, until: Timestamp) -> Result<Vec<ClaimedRun>> {
        let request = ClaimRequest {
            queue: self.queue.name.clone(),
            categories: self.queue.categories.clone(),
            limit,
            owner: self.context.worker.clone(),
            lease_until: until,
            now: self.context.clock.now(),
            gates: self.gates.rules(&*self.context.store, self.context.clock.now()).await?,
        };
        let mut claimed = self.context.store.claim_runs(&request).await?;
        let keys = claimed.iter().map(|run| run.category.as_str());
        self.gates.note(&*self.context.store, keys).await;
        claimed.iter_mut().for_each(|run| run.history.is_probe = run.pass.is_probe);
        let histories = claimed.iter_mut().map(|run| (run.category.as_str(), &mut run.history));
        self.gates.note_closed_time(&self.context, &self.queue.policy, histories).await;
        Ok(claimed)
    }

    fn start(&self, run: &ClaimedRun, claimed_at: Instant) -> Start {
        self.gates.start(&run.pass, &run.category, claimed_at)
    }

    fn gate_changes(&self) -> Option<watch::Receiver<()>> {
        self.gates.changes()
    }

    fn claims_ahead(&self) -> bool {
        self.gates.let_all_through(self.context.clock.now())
    }

    fn lease(&self, run: &ClaimedRun) -> LeaseRef {
        LeaseRef { id: run.id.0, epoch: run.epoch }
    }

    async fn handle(&self, run: &ClaimedRun, stop: Stop) -> Outcome {
        log_start(&self.queue, run);
        self.queue.handler.handle(&self.call(run), self.queue.time_limit, stop).await
    }

    fn complete(
        &self,
        run: &ClaimedRun,
        outcome: Outcome,
        started_at: Timestamp,
        ended_at: Timestamp,
    ) -> Completion<RunFinish> {
        let completion = match outcome {
            Outcome::Stopped => return Completion::Release,
            Outcome::Answered { value, verdict } => RunCompletion::Judged {
                verdict: verdict.unwrap_or(Verdict::Passed),
                result: value.map(|value| bounded(&value)),
            },
            Outcome::Failed(failure) => {
                self.gates.failed(&run.category, &failure);
                self.failed(run.id, run.history, failure, (started_at, ended_at))
            }
            Outcome::Skipped(why) => {
                let message = format!("a run cannot be skipped: {why}");
                let failure = Failure::named(named::BAD_REPLY, Cause::Handler, &message);
                self.failed(run.id, run.history, failure, (started_at, ended_at))
            }
        };
        Completion::Finish(RunFinish {
            id: run.id,
            epoch: run.epoch,
            attempt: run.attempt,
            history: run.history,
            started_at,
            ended_at,
            worker: self.context.worker.clone(),
            completion,
            gates: self.gates.passed(&run.category),
        })
    }

    fn finish_lease(&self, finish: &RunFinish) -> LeaseRef {
        LeaseRef { id: finish.id.0, epoch: finish.epoch }
    }

    async fn finish(&self, finishes: &[RunFinish]) -> Result<Vec<Written>> {
        if finishes.is_empty() {
            return Ok(Vec::new());
        }
        self.context.store.finish_runs(finishes, self.context.clock.now()).await
    }

    async fn was_written(&self, finish: &RunFinish) -> Result<bool> {
        self.context.has_attempt(&finish.ledger_row()).await
    }

    fn log_finish(&self, finish: &RunFinish, written: Written) {
        log_end(&self.queue, finish, written);
    }

    fn logs(&self) -> Option<&Arc<WorkLogs>> {
        Some(&self.logs)
    }

    fn traces(&self) -> Option<&Traces> {
        Some(&self.context.traces)
    }

    fn attempt(&self, end: &RunFinish) -> Option<TracedAttempt> {
        Some(TracedAttempt {
            unit: Unit::Run(end.id),
            place: self.queue.name.clone(),
            details: vec![("queue", self.queue.name.clone())],
            row: end.ledger_row(),
        })
    }

    async fn complete_lost(&self, expired: &[ExpiredLease]) -> Result<Vec<RunFinish>> {
        let ids: Vec<RunId> = expired.iter().map(|expired| RunId(expired.lease.id)).collect();
        let runs = self.context.store.runs_by_id(&ids).await?;
        let ours = runs
            .iter()
            .filter(|run| run.queue == self.queue.name && run.status == RunStatus::Processing);
        let mut finishes = Vec::new();
        for run in ours {
            let lease = LeaseRef { id: run.id.0, epoch: run.lease_epoch };
            if let Some(expired) = expired.iter().find(|expired| expired.lease == lease) {
                finishes.push(self.finish_of_lost(run, expired).await?);
            }
        }
        Ok(finishes)
    }

    fn counts(&self) -> Option<&PlaceCounts> {
        Some(&self.counts)
    }

    fn count(&self, finish: &RunFinish) {
        self.counts.add(finish.attempt_end());
    }

    fn restarts(&self) -> u64 {
        self.queue.handler.restarts()
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.context.store.backlog(&self.queue.name, &self.queue.categories).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>> {
        let (store, queue) = (&self.context.store, &self.queue);
        let (due, has_ready) = if self.gates.gives_start_times() {
            let backlog = self.backlog().await?;
            (backlog.next_due, backlog.ready)
        } else {
            (store.next_due(&queue.name, &queue.categories).await?, false)
        };
        Ok(self.gates.next_due(due, has_ready, self.context.clock.now()))
    }
}

/// The longest result that is kept, in bytes of JSON. A longer one is replaced by a note: the outcome is recorded in any
/// case.
const MAX_RESULT_BYTES: usize = 64 * 1024;

fn bounded(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= MAX_RESULT_BYTES {
        return text;
    }
    serde_json::json!({ "truncated": true, "bytes": text.len() }).to_string()
}

/// Logs an initial attempt, a retry n of m, or an attempt after a deferral (RUN-5).
fn log_start(queue: &Queue, run: &ClaimedRun) {
    let (id, attempt) = (run.id.0, run.attempt.0);
    let History { counted, deferrals, .. } = run.history;
    if deferrals > 0 {
        tracing::info!(run = id, queue = queue.name, attempt, "attempt after a deferral");
    } else if counted == 0 {
        tracing::debug!(run = id, queue = queue.name, attempt, "initial attempt");
    } else if let Some(max) = queue.policy.max_attempts() {
        let of = max.saturating_sub(1);
        tracing::info!(run = id, queue = queue.name, attempt, "retry {counted} of {of}");
    } else {
        tracing::info!(run = id, queue = queue.name, attempt, "retry {counted}");
    }
}

/// Logs how an attempt ended, after that is written (RUN-5).
fn log_end(queue: &Queue, end: &RunFinish, written: Written) {
    let (run, queue, attempt) = (end.id.0, queue.name.as_str(), end.attempt.0);
    let Epoch(epoch) = end.epoch;
    if written == Written::Stale {
        tracing::warn!(run, queue, attempt, epoch, "the store refused a late result");
        return;
    }
    match &end.completion {
        RunCompletion::Judged { verdict, .. } => {
            let how = match verdict {
                Verdict::Passed => "succeeded",
                Verdict::NeedsReview => "judged needs_review",
                Verdict::Failed => "judged failed",
            };
            // The history starts afresh after a manual retry; attempt numbers go on.
            match (end.history.counted, end.history.deferrals) {
                (0, 0) => tracing::debug!(run, queue, attempt, "{how}"),
                (0, _) => tracing::info!(run, queue, attempt, "{how} after a deferral"),
                (1, _) => tracing::info!(run, queue, attempt, "{how} after 1 retry"),
                (n, _) => tracing::info!(run, queue, attempt, "{how} after {n} retries"),
            }
        }
        RunCompletion::Failed { failure, decision } => {
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
