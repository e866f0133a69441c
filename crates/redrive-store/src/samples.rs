//! Samples of pipelines: added, claimed at a stage, finished and read.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Decision, Epoch, Failure, History, PipelineRunId, SampleId, SampleState,
    SampleStatus,
};

use crate::{
    DataEdit, LeaseRef, Operator, PageLimit, PipelineRunRecord, Result, SampleChange, Served,
    SourcePosition, WorkerId, Written,
};

/// A line of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSample {
    /// Starts at 1.
    pub line: u64,
    /// JSON, or why the line is not a valid sample; such a line becomes a dead letter at once.
    pub data: Result<String, Failure>,
    /// The hash of the line.
    pub hash: Option<i64>,
}

/// A line of a source that was read before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleLine {
    pub id: SampleId,
    pub line: u64,
    /// The hash of the line when it was read; `None` for lines that an older version read.
    pub hash: Option<i64>,
    pub status: SampleStatus,
    /// The index of the stage where the sample is.
    pub stage: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleRecord {
    pub id: SampleId,
    pub run: PipelineRunId,
    pub pipeline: String,
    pub line: u64,
    /// JSON; `None` if the line was not a valid sample.
    pub data: Option<String>,
    pub status: SampleStatus,
    /// The index of the stage.
    pub stage: u32,
    pub stage_name: String,
    /// The number of attempts at this stage in the ledger.
    pub attempts: u32,
    /// The value of `attempts` at the last reprocess by an operator.
    pub attempts_at_reset: u32,
    /// Counted retries at this stage since the last reset.
    pub retry_count: u32,
    /// Waits for a server's hint in a row.
    pub deferrals: u32,
    pub next_retry_at: Option<Timestamp>,
    /// When the first attempt at this stage since the last reset began.
    pub first_attempt_at: Option<Timestamp>,
    pub last_attempt_at: Option<Timestamp>,
    pub error_class: Option<String>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub fingerprint: Option<String>,
    pub skip_reason: Option<String>,
    pub lease_owner: Option<WorkerId>,
    /// The epoch of the last lease.
    pub lease_epoch: Epoch,
    /// The end of the lease, on the store's clock.
    pub lease_until: Option<Timestamp>,
}

impl SampleRecord {
    pub fn state(&self) -> SampleState {
        let (held, waits) = (self.lease_owner.is_some(), self.next_retry_at.is_some());
        SampleState::of(self.status, held, waits)
    }

    /// The history at the current stage.
    pub fn history(&self) -> History {
        History {
            counted: self.retry_count,
            deferrals: self.deferrals,
            lost: 0,
            first_attempt_at: self.first_attempt_at,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleClaim {
    pub served: Served,
    pub stage: u32,
    /// At most so many.
    pub limit: u32,
    pub owner: WorkerId,
    /// The end of the leases, on the store's clock.
    pub lease_until: Timestamp,
    /// The wall clock time by which a retry must be due. Due retries come first.
    pub now: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedSample {
    pub id: SampleId,
    pub run: PipelineRunId,
    /// JSON.
    pub data: String,
    /// The number of this attempt in the ledger.
    pub attempt: AttemptNumber,
    pub epoch: Epoch,
    /// The history at this stage.
    pub history: History,
}

/// How an attempt at a sample completed.
#[derive(Debug, Clone, PartialEq)]
pub enum SampleCompletion {
    /// The stage answered with the new data, as JSON.
    Answered(String),
    /// The stage skipped the sample, with a reason.
    Skipped(String),
    Failed {
        failure: Failure,
        decision: Decision,
    },
}

/// A finished attempt at a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleFinish {
    pub id: SampleId,
    pub run: PipelineRunId,
    pub epoch: Epoch,
    /// The index of the stage.
    pub stage: u32,
    pub stage_name: String,
    pub last_stage: bool,
    pub stage_config_hash: String,
    pub attempt: AttemptNumber,
    /// The history at the time of the claim.
    pub history: History,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub worker: WorkerId,
    /// If the sample continues to another stage, the worker keeps it until this time on the store's
    /// clock.
    pub keep_until: Option<Timestamp>,
    pub completion: SampleCompletion,
}

/// The result of finishing an attempt at a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a stale end changed nothing"]
pub enum SampleWritten {
    /// Another worker holds the sample, or the sample has changed; nothing was written.
    Stale,
    /// The state changed, and no worker holds the sample.
    Applied,
    /// The sample continues to its next stage, and the worker holds it there under the next epoch.
    Kept,
}

impl SampleWritten {
    pub fn is_applied(self) -> bool {
        self != Self::Stale
    }
}

impl From<SampleWritten> for Written {
    fn from(written: SampleWritten) -> Self {
        Self::from_changed(written.is_applied())
    }
}

/// Selects samples. Every given field must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleFilter {
    pub pipeline: Option<String>,
    pub run: Option<PipelineRunId>,
    pub status: Option<SampleStatus>,
    pub stage: Option<String>,
    /// A substring of the last error message.
    pub error: Option<String>,
    pub code: Option<String>,
    /// The fingerprint of the last error.
    pub cause: Option<String>,
    /// The last attempt ended at this time or later.
    pub failed_since: Option<Timestamp>,
    /// The last attempt ended before this time.
    pub failed_until: Option<Timestamp>,
}

/// Dead letters with the same cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadCause {
    pub fingerprint: String,
    pub pipeline: String,
    pub stage_name: String,
    pub code: String,
    /// The message of the dead letter with the lowest id.
    pub example: String,
    /// The lowest id.
    pub first: SampleId,
    pub count: u64,
    pub last_attempt_at: Option<Timestamp>,
}

#[async_trait]
pub trait Samples: Send + Sync {
    /// Adds the lines that were read from a source, with the new position, guarded by the lease on
    /// the source. Invalid lines become dead letters at once. Adds nothing to a stopped run, and no
    /// line twice: lines before the run's position were added earlier. Returns the run afterwards,
    /// or `None` if another worker reads the source or the run was stopped.
    async fn append_samples(
        &self,
        feed: LeaseRef,
        samples: &[NewSample],
        position: &SourcePosition,
        at: Timestamp,
    ) -> Result<Option<PipelineRunRecord>>;

    /// Claims samples at a stage: due retries first, then the others, by run and id. Claims nothing
    /// from a stopped run.
    async fn claim_samples(&self, claim: &SampleClaim) -> Result<Vec<ClaimedSample>>;

    /// Finishes attempts: state, ledger row, journal row and the counts of the run, each guarded by
    /// its epoch. Ends or aborts the run if the counts require it. A sample that continues to
    /// another stage stays with the worker that asked to keep it, as if claimed at once, unless the
    /// run was stopped.
    async fn finish_samples(&self, finishes: &[SampleFinish]) -> Result<Vec<SampleWritten>>;

    /// Samples by id; unknown ids are omitted.
    async fn samples_by_id(&self, ids: &[SampleId]) -> Result<Vec<SampleRecord>>;

    /// A page of matching samples with ids above `after`, by id, of at most [`MAX_PAGE_BYTES`](crate::MAX_PAGE_BYTES)
    /// and one sample.
    async fn samples_page(
        &self,
        filter: &SampleFilter,
        after: SampleId,
        limit: PageLimit,
    ) -> Result<Vec<SampleRecord>>;

    /// Matching dead letters by the time of their last attempt, the newest first, without their data.
    async fn newest_dead_samples(
        &self,
        filter: &SampleFilter,
        limit: u32,
    ) -> Result<Vec<SampleRecord>>;

    async fn count_samples(&self, filter: &SampleFilter) -> Result<u64>;

    /// The causes of matching dead letters, the most frequent first.
    async fn dead_causes(&self, filter: &SampleFilter, limit: u32) -> Result<Vec<DeadCause>>;

    /// Replaces the data of dead letters. A line that was not a sample becomes one.
    async fn edit_samples(&self, edits: &[DataEdit]) -> Result<Vec<Written>>;

    /// A page of the lines of a run that were read, after this line.
    async fn sample_lines(
        &self,
        run: PipelineRunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<SampleLine>>;

    /// Returns dead letters to their stage with a new count of attempts, each in isolation, and
    /// reopens their run. One journal row `sample.reprocess` each. A dead letter without data is
    /// refused.
    async fn reprocess_samples(&self, ids: &[SampleId], by: &Operator)
    -> Result<Vec<SampleChange>>;
}
