//! Samples of pipelines: added, claimed at a stage, finished and read.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Decision, Epoch, Failure, History, PipelineRunId, SampleId, SampleState,
    SampleStatus,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    DataEdit, FromRow, GatePass, GateRules, LeaseRef, LetThrough, MAX_NAME_BYTES, Operator,
    PageLimit, PassedGates, PipelineRunRecord, Result, RowReader, SOURCE_STAGE, SampleChange,
    Selection, Served, SourcePosition, WorkerId, Written,
    json_text::{is_unread, optional_json_text},
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

impl FromRow for SampleLine {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            id: SampleId(row.get()?),
            line: row.count("line")?,
            hash: row.get()?,
            status: row.named("status", SampleStatus::from_name)?,
            stage: row.count("stage")?,
        })
    }
}

/// A sample of a pipeline run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Sample))]
pub struct SampleRecord {
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub id: SampleId,
    /// The pipeline run.
    #[serde(rename = "run_id")]
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub run: PipelineRunId,
    pub pipeline: String,
    /// The line in the source.
    pub line: u64,
    pub status: SampleStatus,
    /// The index of the stage.
    #[serde(skip)]
    pub stage: u32,
    /// The current stage.
    #[serde(rename = "stage")]
    pub stage_name: String,
    /// The number of attempts at this stage in the ledger.
    pub attempts: u32,
    /// The value of `attempts` at the last reprocess by an operator.
    pub attempts_at_reset: u32,
    /// Counted failures at this stage since the last reset.
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
    /// Identical for all failures of one cause.
    pub fingerprint: Option<String>,
    pub last_failure_at: Option<Timestamp>,
    pub skip_reason: Option<String>,
    /// The worker that holds the sample.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub lease_owner: Option<WorkerId>,
    /// The epoch of the last lease.
    #[serde(skip)]
    pub lease_epoch: Epoch,
    /// The end of the lease, on the store's clock.
    pub lease_until: Option<Timestamp>,
    /// Any JSON, as written in the source. `None` if the line was not a valid sample, empty if the data was not read, as in
    /// lists.
    #[serde(serialize_with = "optional_json_text", skip_serializing_if = "is_unread")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub data: Option<String>,
}

impl FromRow for SampleRecord {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let (id, run) = (SampleId(row.get()?), PipelineRunId(row.get()?));
        let (pipeline, line) = (row.get()?, row.count("line")?);
        let data: Option<String> = row.get()?;
        let status = row.named("status", SampleStatus::from_name)?;
        let (stage, stage_name): (_, Option<String>) = (row.count("stage")?, row.get()?);
        let attempts = row.count("attempts")?;
        // A line that was not a valid sample reaches the first stage when it is reprocessed with other data.
        let died_at_source = status == SampleStatus::Dlq && attempts == 0;
        let stage_name = stage_name.filter(|_| !died_at_source);
        Ok(Self {
            id,
            run,
            pipeline,
            line,
            data,
            status,
            stage,
            stage_name: stage_name.unwrap_or_else(|| SOURCE_STAGE.to_owned()),
            attempts,
            attempts_at_reset: row.count("attempts_at_reset")?,
            retry_count: row.count("retry_count")?,
            deferrals: row.count("deferrals")?,
            next_retry_at: row.optional_timestamp()?,
            first_attempt_at: row.optional_timestamp()?,
            last_attempt_at: row.optional_timestamp()?,
            error_class: row.get()?,
            error_code: row.get()?,
            error_message: row.get()?,
            fingerprint: row.get()?,
            skip_reason: row.get()?,
            lease_owner: WorkerId::read_optional(row)?,
            lease_epoch: Epoch(row.get()?),
            lease_until: row.optional_timestamp()?,
            last_failure_at: row.optional_timestamp()?,
        })
    }
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
            paused: Duration::ZERO,
            is_probe: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
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
    /// The gates that the samples pass at this stage.
    pub gates: GateRules,
    /// Where the data of a sample has the key that it passes divided gates with: a JSON pointer.
    pub gate_key: Option<String>,
}

impl SampleClaim {
    /// What a sample with this data passes the gates with.
    pub fn key_of(&self, data: &str) -> String {
        let Some(pointer) = &self.gate_key else { return String::new() };
        let data: Value = serde_json::from_str(data).unwrap_or_default();
        gate_key_at(&data, pointer)
    }
}

/// The samples that a claim behind gates takes, each with its key.
#[derive(Debug, Default)]
pub struct ChosenSamples {
    /// In the order in which they could be claimed.
    pub ids: Vec<i64>,
    places: HashMap<SampleId, (usize, String)>,
}

impl ChosenSamples {
    /// Among those that could be claimed, in their order. `most` is how many may have each key.
    pub fn of(candidates: Vec<(SampleId, String)>, limit: u32, most: &[(String, u32)]) -> Self {
        let mut left: HashMap<&str, u32> =
            most.iter().map(|(key, most)| (key.as_str(), *most)).collect();
        let mut chosen = Self::default();
        for (id, key) in candidates {
            let Some(left) = left.get_mut(key.as_str()).filter(|left| **left > 0) else { continue };
            if chosen.ids.len() >= limit as usize {
                break;
            }
            *left -= 1;
            chosen.places.insert(id, (chosen.ids.len(), key));
            chosen.ids.push(id.0);
        }
        chosen
    }

    /// Databases return changed rows in no particular order.
    pub fn sort(&self, claimed: &mut [ClaimedSample]) {
        claimed.sort_by_key(|sample| self.places.get(&sample.id).map(|(place, _)| *place));
    }

    /// Notes how the claimed samples passed.
    pub fn pass(self, claimed: &mut [ClaimedSample], passes: Vec<GatePass>) {
        let Self { mut places, .. } = self;
        for (sample, pass) in claimed.iter_mut().zip(passes) {
            let key = places.remove(&sample.id).map(|(_, key)| key);
            sample.pass = GatePass { key, ..pass };
        }
    }

    pub fn units(&self, claimed: &[ClaimedSample]) -> Vec<LetThrough<'_>> {
        let unit = |sample: &ClaimedSample| {
            let key = self.places.get(&sample.id).map_or("", |(_, key)| key.as_str());
            LetThrough { id: sample.id.0, epoch: sample.epoch.0, key }
        };
        claimed.iter().map(unit).collect()
    }
}

/// The text at a place of some data, as the key of a gate: empty if there is none.
pub fn gate_key_at(data: &Value, pointer: &str) -> String {
    let mut key = match data.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.replace('\0', ""),
        Some(other) => other.to_string(),
    };
    key.truncate(key.floor_char_boundary(MAX_NAME_BYTES));
    key
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
    /// How the sample passed the gates of the stage.
    pub pass: GatePass,
}

impl ClaimedSample {
    /// What the sample passes gates with; empty where there are none.
    pub fn gate_key(&self) -> &str {
        self.pass.key.as_deref().unwrap_or_default()
    }
}

impl FromRow for ClaimedSample {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            id: SampleId(row.get()?),
            run: PipelineRunId(row.get()?),
            data: row.get()?,
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
    /// The gates that the sample has passed; `None` if its stage has none.
    pub gates: Option<PassedGates>,
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

impl FromRow for DeadCause {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            fingerprint: row.get()?,
            pipeline: row.get()?,
            stage_name: row.get()?,
            code: row.get()?,
            example: row.get()?,
            first: SampleId(row.get()?),
            count: row.count("count")?,
            last_attempt_at: row.optional_timestamp()?,
        })
    }
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

    /// A page of matching samples beyond `after` in the order of the page, of at most
    /// [`MAX_PAGE_BYTES`](crate::MAX_PAGE_BYTES) and one sample.
    async fn samples_page(
        &self,
        filter: &Selection,
        after: SampleId,
        limit: PageLimit,
    ) -> Result<Vec<SampleRecord>>;

    /// Matching dead letters by the time of their last attempt, the newest first, without their data.
    async fn newest_dead_samples(
        &self,
        filter: &Selection,
        limit: u32,
    ) -> Result<Vec<SampleRecord>>;

    async fn count_samples(&self, filter: &Selection) -> Result<u64>;

    /// The causes of matching dead letters, the most frequent first.
    async fn dead_causes(&self, filter: &Selection, limit: u32) -> Result<Vec<DeadCause>>;

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

    /// Reprocesses dead letters from the first stage with new data. One that no longer has the old data is refused.
    async fn reread_samples(&self, edits: &[DataEdit], by: &Operator) -> Result<Vec<SampleChange>>;
}
