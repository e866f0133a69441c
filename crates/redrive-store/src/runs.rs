//! Runs in a durable queue: what is submitted, claimed, finished and read.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{AttemptNumber, Decision, Epoch, Failure, History, RunId, RunStatus};
use serde_json::Value;

use crate::{
    Backlog, MAX_IDEMPOTENCY_KEY_BYTES, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES, Operator, PausedQueue,
    QueueStats, Result, RunChange, WorkerId, Written,
};

/// A run to submit. Checked when it is built, so a store never meets a name it cannot keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    queue: String,
    category: String,
    payload: String,
    submitted_at: Timestamp,
    not_before: Option<Timestamp>,
    idempotency_key: Option<String>,
}

/// A run that cannot be submitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is not allowed: {problem}")]
pub struct InvalidRun {
    /// Which field.
    pub field: &'static str,
    /// What is wrong with it, and what is allowed.
    pub problem: String,
}

impl NewRun {
    /// A run for a queue. The payload is kept as canonical JSON, so that equal content is equal text.
    pub fn new(queue: &str, payload: &Value, submitted_at: Timestamp) -> Result<Self, InvalidRun> {
        let payload = canonical_json(payload);
        if payload.len() > MAX_PAYLOAD_BYTES {
            let problem =
                format!("it has {} bytes of JSON, {MAX_PAYLOAD_BYTES} are allowed", payload.len());
            return Err(InvalidRun { field: "payload", problem });
        }
        if queue.is_empty() {
            return Err(InvalidRun { field: "queue", problem: "it must not be empty".to_owned() });
        }
        Ok(Self {
            queue: checked("queue", queue, MAX_NAME_BYTES)?,
            category: String::new(),
            payload,
            submitted_at,
            not_before: None,
            idempotency_key: None,
        })
    }

    /// With a category.
    pub fn with_category(self, category: &str) -> Result<Self, InvalidRun> {
        Ok(Self { category: checked("category", category, MAX_NAME_BYTES)?, ..self })
    }

    /// Not to be claimed before a time.
    pub fn with_not_before(self, not_before: Timestamp) -> Self {
        Self { not_before: Some(not_before), ..self }
    }

    /// With a key that is unique in the queue for the run's life.
    pub fn with_idempotency_key(self, key: &str) -> Result<Self, InvalidRun> {
        if key.is_empty() {
            let problem = "it must not be empty; leave it out instead".to_owned();
            return Err(InvalidRun { field: "idempotency_key", problem });
        }
        let key = checked("idempotency_key", key, MAX_IDEMPOTENCY_KEY_BYTES)?;
        Ok(Self { idempotency_key: Some(key), ..self })
    }

    /// Its queue.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Its category; empty if it has none.
    pub fn category(&self) -> &str {
        &self.category
    }

    /// Its payload, as JSON.
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// When it was submitted; the queue's order.
    pub fn submitted_at(&self) -> Timestamp {
        self.submitted_at
    }

    /// When it may start.
    pub fn not_before(&self) -> Option<Timestamp> {
        self.not_before
    }

    /// Its idempotency key.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    /// When it becomes claimable, if that is not at once.
    pub fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.not_before.filter(|at| *at > now)
    }

    /// Whether a stored run has the same content, which makes submitting it again a no-op.
    pub fn same_content(&self, category: &str, payload: &str) -> bool {
        self.category == category && self.payload == payload
    }
}

/// JSON with its keys in order, whatever order they came in and however the JSON library keeps them.
pub fn canonical_json(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let mut fields: Vec<_> = object.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| key.as_str());
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(key, value)| {
                    format!("{}:{}", Value::from(key.as_str()), canonical_json(value))
                })
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(list) => {
            let list: Vec<String> = list.iter().map(canonical_json).collect();
            format!("[{}]", list.join(","))
        }
        plain => plain.to_string(),
    }
}

fn checked(field: &'static str, value: &str, max_bytes: usize) -> Result<String, InvalidRun> {
    let problem = if value.contains('\0') {
        "it must not contain a NUL character".to_owned()
    } else if value.len() > max_bytes {
        format!("it has {} bytes, {max_bytes} are allowed", value.len())
    } else {
        return Ok(value.to_owned());
    };
    Err(InvalidRun { field, problem })
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmittedRun {
    /// It is in the queue.
    Accepted(RunId),
    /// The same content was submitted under this key before; nothing happened.
    Duplicate(RunId),
    /// Other content was submitted under this key before; refused.
    Conflict(RunId),
}

/// A run as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecord {
    /// Its id.
    pub id: RunId,
    /// Its queue.
    pub queue: String,
    /// Its category; empty if it has none.
    pub category: String,
    /// Its payload, as JSON.
    pub payload: String,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// When it may start.
    pub not_before: Option<Timestamp>,
    /// Its idempotency key.
    pub idempotency_key: Option<String>,
    /// Its status.
    pub status: RunStatus,
    /// How many executions the ledger has.
    pub attempts: u32,
    /// How many it had when an operator last sent the run back; the count began anew there.
    pub attempts_at_reset: u32,
    /// Counted retries since the last reset.
    pub retry_count: u32,
    /// Waits for a server's hint in a row.
    pub deferrals: u32,
    /// When it is tried again.
    pub next_retry_at: Option<Timestamp>,
    /// When the first attempt since the last reset began.
    pub first_attempt_at: Option<Timestamp>,
    /// The class of the last error.
    pub error_class: Option<String>,
    /// The message of the last error.
    pub error_message: Option<String>,
    /// The handler's answer, as JSON.
    pub result: Option<String>,
    /// Who holds it.
    pub lease_owner: Option<WorkerId>,
    /// The last epoch it was held under.
    pub lease_epoch: Epoch,
    /// Until when it is held, on the store's clock.
    pub lease_until: Option<Timestamp>,
    /// Whether a claim would take it now.
    pub ready: bool,
    /// When it becomes ready by itself.
    pub due_at: Option<Timestamp>,
}

/// Which categories a claim may take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Categories {
    /// Every category, also ones nobody named.
    All,
    /// These alone; an empty list allows none.
    Only(Vec<String>),
}

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// From this queue.
    pub queue: String,
    /// Of these categories.
    pub categories: Categories,
    /// At most so many.
    pub limit: u32,
    /// For this worker.
    pub owner: WorkerId,
    /// Held until then, on the store's clock.
    pub lease_until: Timestamp,
    /// Retries due by then, on the wall clock, compete with new runs.
    pub now: Timestamp,
}

/// A run that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRun {
    /// Its id.
    pub id: RunId,
    /// Its category.
    pub category: String,
    /// Its payload, as JSON.
    pub payload: String,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// The number this attempt will have in the ledger.
    pub attempt: AttemptNumber,
    /// The epoch under which it is held.
    pub epoch: Epoch,
    /// What is known of it so far.
    pub history: History,
}

/// What the handler made of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Good.
    Passed,
    /// A person should look.
    NeedsReview,
    /// Bad.
    Failed,
}

/// How an attempt at a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum RunCompletion {
    /// The handler answered.
    Judged {
        /// Its verdict.
        verdict: Verdict,
        /// Its answer, as JSON.
        result: Option<String>,
    },
    /// The attempt failed.
    Failed {
        /// How.
        failure: Failure,
        /// What was decided about it.
        decision: Decision,
    },
}

/// The end of an attempt at a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFinish {
    /// The run.
    pub id: RunId,
    /// The epoch under which it was held.
    pub epoch: Epoch,
    /// The attempt's number.
    pub attempt: AttemptNumber,
    /// What was known of the run when it was claimed.
    pub history: History,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Who ran it.
    pub worker: WorkerId,
    /// How it ended.
    pub completion: RunCompletion,
}

/// Which runs to list. Everything given must match exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// In this queue.
    pub queue: Option<String>,
    /// Of this category.
    pub category: Option<String>,
    /// With this status.
    pub status: Option<RunStatus>,
}

/// The runs of a store.
#[async_trait]
pub trait Runs: Send + Sync {
    /// Submits runs, in order. Ids grow with the order.
    async fn submit_runs(&self, runs: &[NewRun], now: Timestamp) -> Result<Vec<SubmittedRun>>;

    /// Takes the next runs of a queue: `discovered`, or `error` whose retry is due; allowed
    /// categories; oldest `submitted_at` first, ties by id (RUN-2). They come in that order. Takes
    /// nothing from a paused queue.
    async fn claim_runs(&self, request: &ClaimRequest) -> Result<Vec<ClaimedRun>>;

    /// Ends attempts: state, ledger row and journal row, each run by itself, guarded by its epoch.
    /// Retries that are due by `now`, on the wall clock, are claimable at once.
    async fn finish_runs(&self, finishes: &[RunFinish], now: Timestamp) -> Result<Vec<Written>>;

    /// Runs by id; unknown ids are left out.
    async fn runs_by_id(&self, ids: &[RunId]) -> Result<Vec<RunRecord>>;

    /// The runs that match, by id, after an id, a page at a time.
    async fn runs_page(
        &self,
        filter: &RunFilter,
        after: RunId,
        limit: u32,
    ) -> Result<Vec<RunRecord>>;

    /// Sends runs back to their queue with a new count ([`RunEvent::Retry`](redrive_core::RunEvent)):
    /// ready at once, retry fields cleared, `attempts_at_reset` set; the last error stays until the
    /// next attempt ends. One journal row `run.retry` each.
    async fn retry_runs(&self, ids: &[RunId], by: &Operator) -> Result<Vec<RunChange>>;

    /// Stops runs ([`RunEvent::Cancel`](redrive_core::RunEvent)). A running one loses its lease: its
    /// epoch is raised, so that its worker can write nothing more. One journal row `run.cancel` each.
    async fn cancel_runs(&self, ids: &[RunId], by: &Operator) -> Result<Vec<RunChange>>;

    /// How every queue stands that has runs or is paused, by name.
    async fn queue_stats(&self) -> Result<Vec<QueueStats>>;

    /// Pauses a queue: nothing more is claimed from it. Journalled as `queue.pause`. `false` if it
    /// was paused already; then nothing happens.
    async fn pause_queue(&self, queue: &str, by: &Operator) -> Result<bool>;

    /// Resumes a queue. Journalled as `queue.resume`. `false` if it was not paused.
    async fn resume_queue(&self, queue: &str, by: &Operator) -> Result<bool>;

    /// The queues that are paused, by name.
    async fn paused_queues(&self) -> Result<Vec<PausedQueue>>;

    /// What a queue still has to do, as far as some categories go. A paused queue has nothing ready.
    async fn backlog(&self, queue: &str, categories: &Categories) -> Result<Backlog>;

    /// When the next waiting run is due. What an idle worker asks every second, so its cost does not
    /// grow with the runs that are done; that of [`Runs::backlog`] may.
    async fn next_due(&self, queue: &str, categories: &Categories) -> Result<Option<Timestamp>>;
}
