//! Runs in a durable queue: submitted, claimed, finished and read.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{AttemptNumber, Decision, Epoch, Failure, History, RunId, RunState, RunStatus};
use serde::Serialize;
use serde_json::{Number, Value};

use crate::{
    Backlog, DataEdit, FromRow, GatePass, GateRules, MAX_IDEMPOTENCY_KEY_BYTES, MAX_NAME_BYTES,
    MAX_PAYLOAD_BYTES, Operator, PageLimit, PassedGates, PausedQueue, QueueStats, Result,
    RowReader, RunChange, Selection, WorkerId, Written,
    json_text::{json_text, optional_json_text},
};

/// A run to submit. The constructors check every field, so a store can keep every `NewRun`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    queue: String,
    category: String,
    payload: String,
    submitted_at: Timestamp,
    not_before: Option<Timestamp>,
    idempotency_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is not allowed: {problem}")]
pub struct InvalidRun {
    pub field: &'static str,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

impl NewRun {
    /// The payload is stored as canonical JSON, so that equal content is equal text.
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

    pub fn with_category(self, category: &str) -> Result<Self, InvalidRun> {
        Ok(Self { category: checked("category", category, MAX_NAME_BYTES)?, ..self })
    }

    pub fn with_not_before(self, not_before: Timestamp) -> Self {
        Self { not_before: Some(not_before), ..self }
    }

    /// The key is unique in the queue for the life of the run.
    pub fn with_idempotency_key(self, key: &str) -> Result<Self, InvalidRun> {
        if key.is_empty() {
            let problem = "it must not be empty; leave it out instead".to_owned();
            return Err(InvalidRun { field: "idempotency_key", problem });
        }
        let key = checked("idempotency_key", key, MAX_IDEMPOTENCY_KEY_BYTES)?;
        Ok(Self { idempotency_key: Some(key), ..self })
    }

    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Empty if the run has no category.
    pub fn category(&self) -> &str {
        &self.category
    }

    /// JSON.
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// The order of the queue.
    pub fn submitted_at(&self) -> Timestamp {
        self.submitted_at
    }

    pub fn not_before(&self) -> Option<Timestamp> {
        self.not_before
    }

    pub fn idempotency_key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    /// When the run becomes claimable; `None` if it is claimable at `now`.
    pub fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.not_before.filter(|at| *at > now)
    }

    /// The result for a run whose idempotency key a stored run has.
    pub fn refused_by(&self, stored: RunId, category: &str, payload: &str) -> SubmittedRun {
        if self.category == category && self.payload == payload {
            SubmittedRun::Duplicate(stored)
        } else {
            SubmittedRun::Conflict(stored)
        }
    }
}

/// JSON with sorted keys, independent of the order of the input and of the JSON library.
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
        Value::Number(number) => canonical_number(number),
        plain => plain.to_string(),
    }
}

/// A fraction as an `f64` prints it if that is the same number, so that 1.50 and 1.5 are equal content. Other
/// numbers as they are written: none loses a digit.
fn canonical_number(number: &Number) -> String {
    let written = number.to_string();
    if written.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return written;
    }
    let printed = number.as_f64().and_then(Number::from_f64).map(|printed| printed.to_string());
    printed.filter(|printed| decimal(printed) == decimal(&written)).unwrap_or(written)
}

/// The sign, the digits without zeros at the ends, and the exponent: equal for equal numbers.
fn decimal(number: &str) -> (bool, String, i64) {
    let digits = number.trim_start_matches('-');
    let (digits, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let zeros = (digits.len() - significant.len()) as i64 - fraction.len() as i64;
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX).saturating_add(zeros);
    let significant = significant.trim_start_matches('0').to_owned();
    let exponent = if significant.is_empty() { 0 } else { exponent };
    (number.starts_with('-'), significant, exponent)
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmittedRun {
    Accepted(RunId),
    /// The key exists with the same content; nothing changed.
    Duplicate(RunId),
    /// The key exists with other content; nothing changed.
    Conflict(RunId),
}

/// A run of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Run))]
pub struct RunRecord {
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub id: RunId,
    pub queue: String,
    /// Empty if the run has no category.
    pub category: String,
    /// Any JSON; the input of the handler. Empty if it was not read, as in lists.
    #[serde(serialize_with = "json_text", skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub payload: String,
    pub submitted_at: Timestamp,
    /// The earliest start.
    pub not_before: Option<Timestamp>,
    pub status: RunStatus,
    /// Counted failures since the last reset.
    pub retry_count: u32,
    /// Null unless the run waits for a retry.
    pub next_retry_at: Option<Timestamp>,
    pub error_class: Option<String>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    /// Identical for all failures of one cause.
    pub fingerprint: Option<String>,
    pub last_failure_at: Option<Timestamp>,
    /// Any JSON; the output of the handler. Lists omit it unless asked.
    #[serde(serialize_with = "optional_json_text", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub result: Option<String>,
    /// The number of attempts in the ledger.
    pub attempts: u32,
    /// The value of `attempts` at the last retry by an operator, from which attempts count anew.
    pub attempts_at_reset: u32,
    /// Waits for a server's hint in a row.
    pub deferrals: u32,
    /// When the first attempt since the last reset began.
    pub first_attempt_at: Option<Timestamp>,
    /// A second submission with the same key is a duplicate.
    pub idempotency_key: Option<String>,
    /// The worker that holds the run.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub lease_owner: Option<WorkerId>,
    /// The epoch of the last lease.
    #[serde(skip)]
    pub lease_epoch: Epoch,
    /// The end of the lease, on the store's clock.
    pub lease_until: Option<Timestamp>,
    /// Whether a claim would take the run now.
    #[serde(skip)]
    pub ready: bool,
    /// When the run becomes ready without an action.
    #[serde(skip)]
    pub due_at: Option<Timestamp>,
}

impl FromRow for RunRecord {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            id: RunId(row.get()?),
            queue: row.get()?,
            category: row.get()?,
            payload: row.get()?,
            submitted_at: row.timestamp()?,
            not_before: row.optional_timestamp()?,
            idempotency_key: row.get()?,
            status: row.named("status", RunStatus::from_name)?,
            attempts: row.count("attempts")?,
            attempts_at_reset: row.count("attempts_at_reset")?,
            retry_count: row.count("retry_count")?,
            deferrals: row.count("deferrals")?,
            next_retry_at: row.optional_timestamp()?,
            first_attempt_at: row.optional_timestamp()?,
            error_class: row.get()?,
            error_message: row.get()?,
            result: row.get()?,
            lease_owner: WorkerId::read_optional(row)?,
            lease_epoch: Epoch(row.get()?),
            lease_until: row.optional_timestamp()?,
            ready: row.get()?,
            due_at: row.optional_timestamp()?,
            error_code: row.get()?,
            fingerprint: row.get()?,
            last_failure_at: row.optional_timestamp()?,
        })
    }
}

impl RunRecord {
    pub fn state(&self) -> RunState {
        RunState::of(self.status, self.next_retry_at.is_some())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Categories {
    All,
    /// Only these; an empty list selects none.
    Only(Vec<String>),
}

impl Categories {
    /// Those that are named; none if all are meant.
    pub fn named(&self) -> &[String] {
        match self {
            Self::All => &[],
            Self::Only(named) => named,
        }
    }

    /// Whether a category is one of them.
    pub fn among(&self, category: &String) -> bool {
        match self {
            Self::All => true,
            Self::Only(named) => named.contains(category),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClaimRequest {
    pub queue: String,
    pub categories: Categories,
    /// At most so many.
    pub limit: u32,
    pub owner: WorkerId,
    /// The end of the leases, on the store's clock.
    pub lease_until: Timestamp,
    /// The wall clock time by which a retry must be due.
    pub now: Timestamp,
    /// The gates that the runs pass, with their category as the key.
    pub gates: GateRules,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRun {
    pub id: RunId,
    pub category: String,
    pub payload: String,
    pub submitted_at: Timestamp,
    /// The number of this attempt in the ledger.
    pub attempt: AttemptNumber,
    pub epoch: Epoch,
    pub history: History,
    /// How the run passed its gates.
    pub pass: GatePass,
}

impl FromRow for ClaimedRun {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            id: RunId(row.get()?),
            category: row.get()?,
            payload: row.get()?,
            submitted_at: row.timestamp()?,
            attempt: AttemptNumber(row.count::<u32>("attempts")?.saturating_add(1)),
            epoch: Epoch(row.get()?),
            history: History {
                counted: row.count("retry_count")?,
                deferrals: row.count("deferrals")?,
                lost: 0,
                first_attempt_at: row.optional_timestamp()?,
                paused: Duration::ZERO,
                is_probe: false,
            },
            pass: GatePass::default(),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    Passed,
    /// A person should review the run.
    NeedsReview,
    Failed,
}

/// How an attempt at a run completed.
#[derive(Debug, Clone, PartialEq)]
pub enum RunCompletion {
    /// The handler answered with a verdict.
    Judged {
        verdict: Verdict,
        /// The handler's answer, as JSON.
        result: Option<String>,
    },
    Failed {
        failure: Failure,
        decision: Decision,
    },
}

/// A finished attempt at a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFinish {
    pub id: RunId,
    pub epoch: Epoch,
    pub attempt: AttemptNumber,
    /// The history at the time of the claim.
    pub history: History,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub worker: WorkerId,
    pub completion: RunCompletion,
    /// The gates that the run has passed; `None` if its queue has none.
    pub gates: Option<PassedGates>,
}

#[async_trait]
pub trait Runs: Send + Sync {
    /// Submits runs. Ids grow in the order of the slice.
    async fn submit_runs(&self, runs: &[NewRun], now: Timestamp) -> Result<Vec<SubmittedRun>>;

    /// Claims the next runs of a queue: `discovered`, or `error` with a due retry; in the requested
    /// categories; oldest `submitted_at` first, then by id (RUN-2). The result has the same order.
    /// Claims nothing from a paused queue, and nothing that a gate keeps back (GAT-3).
    async fn claim_runs(&self, request: &ClaimRequest) -> Result<Vec<ClaimedRun>>;

    /// Finishes attempts: state, ledger row and journal row, each run in isolation, guarded by its
    /// epoch. Retries that are due by `now`, on the wall clock, are claimable at once.
    async fn finish_runs(&self, finishes: &[RunFinish], now: Timestamp) -> Result<Vec<Written>>;

    /// Runs by id; unknown ids are omitted.
    async fn runs_by_id(&self, ids: &[RunId]) -> Result<Vec<RunRecord>>;

    /// A page of matching runs beyond `after` in the order of the page, of at most
    /// [`MAX_PAGE_BYTES`](crate::MAX_PAGE_BYTES) and one run.
    async fn runs_page(
        &self,
        filter: &Selection,
        after: RunId,
        limit: PageLimit,
    ) -> Result<Vec<RunRecord>>;

    /// Returns runs to their queue with a new count ([`RunEvent::Retry`](redrive_core::RunEvent)):
    /// ready at once, retry fields cleared, `attempts_at_reset` set. The last error stays until the
    /// next attempt ends. One journal row `run.retry` each.
    async fn retry_runs(&self, ids: &[RunId], by: &Operator) -> Result<Vec<RunChange>>;

    /// Replaces the payloads of runs that wait or were given up. The category, the key and the retries stay.
    async fn edit_runs(&self, edits: &[DataEdit]) -> Result<Vec<Written>>;

    /// Cancels runs ([`RunEvent::Cancel`](redrive_core::RunEvent)). A running run loses its lease:
    /// the epoch is raised, so its worker can write nothing more. One journal row `run.cancel`
    /// each.
    async fn cancel_runs(&self, ids: &[RunId], by: &Operator) -> Result<Vec<RunChange>>;

    /// Statistics of every queue that has runs or is paused, by name.
    async fn queue_stats(&self) -> Result<Vec<QueueStats>>;

    /// Pauses a queue: further claims return nothing. Journal action `queue.pause`. `false`,
    /// without a change, if the queue was paused already.
    async fn pause_queue(&self, queue: &str, by: &Operator) -> Result<bool>;

    /// Resumes a queue. Journal action `queue.resume`. `false` if the queue was not paused.
    async fn resume_queue(&self, queue: &str, by: &Operator) -> Result<bool>;

    /// By name.
    async fn paused_queues(&self) -> Result<Vec<PausedQueue>>;

    /// The outstanding work of a queue in some categories. A paused queue has nothing ready.
    async fn backlog(&self, queue: &str, categories: &Categories) -> Result<Backlog>;

    /// When the next waiting run is due. Idle workers call this every second, so the cost must not
    /// grow with the number of finished runs; the cost of [`Runs::backlog`] may.
    async fn next_due(&self, queue: &str, categories: &Categories) -> Result<Option<Timestamp>>;
}
