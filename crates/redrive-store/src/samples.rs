//! Samples of pipelines: what is added, claimed at a stage, finished and read.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Decision, Epoch, Failure, History, PipelineRunId, SampleId, SampleState,
    SampleStatus,
};

use crate::{
    LeaseRef, Operator, PipelineRunRecord, Result, SampleChange, Served, SourcePosition, WorkerId,
    Written,
};

/// A line of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSample {
    /// Its number in the source, from 1.
    pub line: u64,
    /// The sample, as JSON, or why the line is none: then it is a dead letter at once.
    pub data: Result<String, Failure>,
}

/// A sample as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleRecord {
    /// Its id.
    pub id: SampleId,
    /// The run it belongs to.
    pub run: PipelineRunId,
    /// The pipeline of that run.
    pub pipeline: String,
    /// Its line in the source.
    pub line: u64,
    /// What it is by now, as JSON; none if its line was no sample.
    pub data: Option<String>,
    /// Its status.
    pub status: SampleStatus,
    /// The place of its stage.
    pub stage: u32,
    /// The name of its stage.
    pub stage_name: String,
    /// How many executions the ledger has at this stage.
    pub attempts: u32,
    /// How many it had when an operator last brought the sample back.
    pub attempts_at_reset: u32,
    /// Counted retries at this stage since then.
    pub retry_count: u32,
    /// Waits for a server's hint in a row.
    pub deferrals: u32,
    /// When it is tried again.
    pub next_retry_at: Option<Timestamp>,
    /// When the first attempt at this stage since the last reset began.
    pub first_attempt_at: Option<Timestamp>,
    /// When the last attempt at this stage ended.
    pub last_attempt_at: Option<Timestamp>,
    /// The class of the last error at this stage.
    pub error_class: Option<String>,
    /// Its code.
    pub error_code: Option<String>,
    /// Its message.
    pub error_message: Option<String>,
    /// What groups it with failures like it.
    pub fingerprint: Option<String>,
    /// Why it was passed over.
    pub skip_reason: Option<String>,
    /// Who holds it.
    pub lease_owner: Option<WorkerId>,
    /// The last epoch it was held under.
    pub lease_epoch: Epoch,
    /// Until when it is held, on the store's clock.
    pub lease_until: Option<Timestamp>,
}

impl SampleRecord {
    /// Its state.
    pub fn state(&self) -> SampleState {
        let (held, waits) = (self.lease_owner.is_some(), self.next_retry_at.is_some());
        SampleState::of(self.status, held, waits)
    }

    /// What is known of it at its stage.
    pub fn history(&self) -> History {
        History {
            counted: self.retry_count,
            deferrals: self.deferrals,
            first_attempt_at: self.first_attempt_at,
        }
    }
}

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleClaim {
    /// Of which runs.
    pub served: Served,
    /// At this stage.
    pub stage: u32,
    /// At most so many.
    pub limit: u32,
    /// For this worker.
    pub owner: WorkerId,
    /// Held until then, on the store's clock.
    pub lease_until: Timestamp,
    /// Retries due by then, on the wall clock, come first.
    pub now: Timestamp,
}

/// A sample that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedSample {
    /// Its id.
    pub id: SampleId,
    /// The run it belongs to.
    pub run: PipelineRunId,
    /// What it is by now, as JSON.
    pub data: String,
    /// The number this attempt will have in the ledger.
    pub attempt: AttemptNumber,
    /// The epoch under which it is held.
    pub epoch: Epoch,
    /// What is known of it at this stage.
    pub history: History,
}

/// How an attempt at a sample ended.
#[derive(Debug, Clone, PartialEq)]
pub enum SampleCompletion {
    /// The stage answered with what the sample is from here on, as JSON.
    Answered(String),
    /// The stage passed it over, and why.
    Skipped(String),
    /// The attempt failed.
    Failed {
        /// How.
        failure: Failure,
        /// What was decided about it.
        decision: Decision,
    },
}

/// The end of an attempt at a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleFinish {
    /// The sample.
    pub id: SampleId,
    /// The run it belongs to.
    pub run: PipelineRunId,
    /// The epoch under which it was held.
    pub epoch: Epoch,
    /// The place of the stage.
    pub stage: u32,
    /// The name of the stage.
    pub stage_name: String,
    /// Whether it is the last one.
    pub last_stage: bool,
    /// What the stage's configuration was.
    pub stage_config_hash: String,
    /// The attempt's number.
    pub attempt: AttemptNumber,
    /// What was known of the sample when it was claimed.
    pub history: History,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Who ran it.
    pub worker: WorkerId,
    /// Until when that one keeps the sample, on the store's clock, if it goes on to another stage.
    pub keep_until: Option<Timestamp>,
    /// How it ended.
    pub completion: SampleCompletion,
}

/// What became of the end of an attempt at a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a stale end changed nothing"]
pub enum SampleWritten {
    /// Someone else has the sample by now; nothing changed.
    Stale,
    /// The state changed, and nobody holds the sample.
    Applied,
    /// It went on to its next stage, and who ran it holds it there, under the next epoch.
    Kept,
}

impl SampleWritten {
    /// Whether the state changed.
    pub fn is_applied(self) -> bool {
        self != Self::Stale
    }
}

impl From<SampleWritten> for Written {
    fn from(written: SampleWritten) -> Self {
        Self::from_changed(written.is_applied())
    }
}

/// Which samples to read. Everything given must match; all but `error` exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleFilter {
    /// Of the runs of this pipeline.
    pub pipeline: Option<String>,
    /// Of this run.
    pub run: Option<PipelineRunId>,
    /// In this status.
    pub status: Option<SampleStatus>,
    /// At the stage of this name.
    pub stage: Option<String>,
    /// With this text somewhere in the message of the last error.
    pub error: Option<String>,
    /// With this code of the last error.
    pub code: Option<String>,
    /// With this fingerprint of the last error.
    pub cause: Option<String>,
}

/// Dead letters that died of the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadCause {
    /// What they have in common.
    pub fingerprint: String,
    /// The pipeline.
    pub pipeline: String,
    /// The stage.
    pub stage_name: String,
    /// The code.
    pub code: String,
    /// The message of one of them, the first by id.
    pub example: String,
    /// The id of that one.
    pub first: SampleId,
    /// How many there are.
    pub count: u64,
    /// When the last of them died.
    pub last_attempt_at: Option<Timestamp>,
}

/// The samples of a store.
#[async_trait]
pub trait Samples: Send + Sync {
    /// Adds what was read of a source, with the new position, guarded by the lease on the source. Lines
    /// that are no samples are dead letters at once. Nothing is added to a run that was stopped, and
    /// nothing twice: what the position of the run is past already came before. Says how the run
    /// stands after it, or that nobody wants it: someone else reads the source, or the run was stopped.
    async fn append_samples(
        &self,
        feed: LeaseRef,
        samples: &[NewSample],
        position: &SourcePosition,
        at: Timestamp,
    ) -> Result<Option<PipelineRunRecord>>;

    /// Takes samples at a stage: retries that are due first, then the others, run by run, in the order
    /// of their ids. Takes nothing of a run that was stopped.
    async fn claim_samples(&self, claim: &SampleClaim) -> Result<Vec<ClaimedSample>>;

    /// Ends attempts: state, ledger row, journal row and the counts of the run, each guarded by its
    /// epoch. Ends or stops the run if that is what the samples come to. A sample that goes on to
    /// another stage stays with who asked to keep it, as if claimed there at once, unless its run was
    /// stopped.
    async fn finish_samples(&self, finishes: &[SampleFinish]) -> Result<Vec<SampleWritten>>;

    /// Samples by id; unknown ids are left out.
    async fn samples_by_id(&self, ids: &[SampleId]) -> Result<Vec<SampleRecord>>;

    /// The samples that match, by id, after an id, a page at a time.
    async fn samples_page(
        &self,
        filter: &SampleFilter,
        after: SampleId,
        limit: u32,
    ) -> Result<Vec<SampleRecord>>;

    /// How many samples match.
    async fn count_samples(&self, filter: &SampleFilter) -> Result<u64>;

    /// What the dead letters that match died of, the most frequent first.
    async fn dead_causes(&self, filter: &SampleFilter, limit: u32) -> Result<Vec<DeadCause>>;

    /// Brings dead letters back to their stage with a new count of attempts, each by itself, and
    /// reopens their run. One journal row `sample.reprocess` each. A dead letter whose line was no
    /// sample has nothing to go on with, and is refused.
    async fn reprocess_samples(&self, ids: &[SampleId], by: &Operator)
    -> Result<Vec<SampleChange>>;
}
