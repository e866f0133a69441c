//! Pipeline runs: a source, the stages that its samples pass, and the progress of the run.
//!
//! The row of a run has the position in the source and the counts of its samples, and changes in
//! the transactions that add and finish samples. So the counts always equal the sum of the samples,
//! and the failure budget is checked after an exact number of samples ([`PipelineProgress`]). The
//! reader of the source holds a lease on the run, [`Leased::Feed`](crate::Leased::Feed); samples
//! have their own leases.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    BudgetCount, BudgetExceeded, Epoch, Failure, FailureBudget, PipelineProgress, PipelineRules,
    PipelineRunId, PipelineStatus, SampleCounts,
};
use serde_json::{Value, json};

use crate::{
    AttemptOutcome, Backlog, Error, FromRow, JournalEntry, LeaseRef, NewSample, Operator,
    PageLimit, PipelineAction, PipelineChange, PrunedSamples, Result, RowReader, Selection,
    WorkerId, Written,
};

#[derive(Debug, Clone, PartialEq)]
pub struct NewPipelineRun {
    pub pipeline: String,
    /// In order; never empty.
    pub stages: Vec<String>,
    pub rules: PipelineRules,
    /// The maximum number of unfinished samples.
    pub read_ahead: u32,
    /// A description of the source for people.
    pub source: String,
}

impl NewPipelineRun {
    /// Rejects a run that no worker could finish.
    pub fn check(&self) -> Result<()> {
        const DOING: &str = "starting a pipeline run";
        let mut known = HashSet::new();
        let problem = match self.stages.iter().find(|name| !known.insert(*name)) {
            Some(name) => format!("two stages are called {name:?}"),
            None if self.stages.is_empty() => "the pipeline has no stages".to_owned(),
            None if self.stages.iter().any(String::is_empty) => "a stage has no name".to_owned(),
            None if self.pipeline.is_empty() => "the pipeline has no name".to_owned(),
            None => return Ok(()),
        };
        Err(Error::misuse(DOING, problem))
    }
}

/// The position in a source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourcePosition {
    /// Lines read. Every line that is not blank is a sample.
    pub lines: u64,
    /// Bytes read, for a source that has bytes.
    pub bytes: u64,
    /// A checksum of the part that was read, to detect a changed source.
    pub check: Option<String>,
    /// Whether the whole source was read.
    pub done: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PipelineRunRecord {
    pub id: PipelineRunId,
    pub pipeline: String,
    pub stages: Vec<String>,
    pub rules: PipelineRules,
    /// The maximum number of unfinished samples.
    pub read_ahead: u32,
    /// A description of the source for people.
    pub source: String,
    /// `done` equals `SampleCounts::source_done`.
    pub position: SourcePosition,
    pub progress: PipelineProgress,
    pub started_at: Timestamp,
    pub started_by: String,
    pub ended_at: Option<Timestamp>,
    pub stop_reason: Option<String>,
    /// The lease of the source's reader.
    pub feed: Option<ExpiringLease>,
    /// The epoch of the last lease on the source.
    pub feed_epoch: Epoch,
    /// Samples that were pruned; `progress.counts` still includes them.
    pub pruned: PrunedSamples,
}

impl FromRow for PipelineRunRecord {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let id = PipelineRunId(row.get()?);
        let (pipeline, stages) = (row.get()?, row.texts("stages")?);
        let rules = rules_from_json(row.text()?);
        let (read_ahead, source) = (row.count("read_ahead")?, row.get()?);
        let (lines, bytes) = (row.count("source_lines")?, row.count("source_bytes")?);
        let check = row.get()?;
        let status = row.named("status", PipelineStatus::from_name)?;
        let counts = SampleCounts {
            total: row.count("total")?,
            succeeded: row.count("succeeded")?,
            skipped: row.count("skipped")?,
            dlq: row.count("dlq")?,
            source_done: row.get()?,
        };
        let budget = BudgetCount {
            processed: row.count("budget_processed")?,
            failed: row.count("budget_failed")?,
        };
        Ok(Self {
            id,
            pipeline,
            stages,
            rules,
            read_ahead,
            source,
            position: SourcePosition { lines, bytes, check, done: counts.source_done },
            progress: PipelineProgress { status, counts, budget },
            started_at: row.timestamp()?,
            started_by: row.get()?,
            ended_at: row.optional_timestamp()?,
            stop_reason: row.get()?,
            feed: FromRow::from_row(row)?,
            feed_epoch: Epoch(row.get()?),
            pruned: PrunedSamples {
                succeeded: row.count("pruned_succeeded")?,
                skipped: row.count("pruned_skipped")?,
                dlq: row.count("pruned_dlq")?,
            },
        })
    }
}

/// The holder of a lease and the end of the lease, on the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiringLease {
    pub owner: WorkerId,
    pub until: Timestamp,
}

impl FromRow for Option<ExpiringLease> {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let owner = WorkerId::read_optional(row)?;
        // The columns are both set or both empty.
        Ok(owner
            .zip(row.optional_timestamp()?)
            .map(|(owner, until)| ExpiringLease { owner, until }))
    }
}

impl PipelineRunRecord {
    pub fn stage_name(&self, stage: u32) -> &str {
        let name = usize::try_from(stage).ok().and_then(|place| self.stages.get(place));
        name.map_or("", String::as_str)
    }

    /// Whether samples may be added under the lease: it is the lease of the source's reader, and
    /// the run is running.
    pub fn is_fed_by(&self, lease: LeaseRef) -> bool {
        let held = self.feed.is_some() && self.feed_epoch == lease.epoch;
        held && self.progress.status == PipelineStatus::Running
    }

    /// The samples that were not added yet: all of them, or none if they were added before and only
    /// the response was lost.
    pub fn unread<'a>(
        &self,
        samples: &'a [NewSample],
        position: &SourcePosition,
    ) -> &'a [NewSample] {
        if position.lines > self.position.lines { samples } else { &[] }
    }

    pub fn budget_exceeded(&self) -> Option<BudgetExceeded> {
        self.rules.budget.exceeded(self.progress.budget)
    }
}

/// The runs that a worker serves. The stages must equal the stages of the run: a run with other
/// stages is left to a program that knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    pub pipeline: String,
    pub stages: Vec<String>,
    /// `None` serves every run of the pipeline.
    pub run: Option<PipelineRunId>,
}

/// A request to claim sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceClaim {
    pub served: Served,
    /// At most so many.
    pub limit: u32,
    pub owner: WorkerId,
    /// The end of the leases, on the store's clock.
    pub lease_until: Timestamp,
}

/// The end of reading a source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceFinish {
    pub lease: LeaseRef,
    /// Why the source cannot be read further, which stops the run. `None` if the source was read to
    /// its end or its reader was lost; another reader then continues.
    pub failure: Option<Failure>,
    pub at: Timestamp,
    pub worker: WorkerId,
}

/// The samples of a run at one stage, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageCount {
    pub ready: u64,
    pub running: u64,
    pub retrying: u64,
    pub skipped: u64,
    pub dlq: u64,
    /// Dead lines of the source that were no samples; the first stage has them, though they never reached it.
    pub source_dlq: u64,
}

/// Samples at a stage: its index, the name of a field of [`StageCount`], and their number.
impl FromRow for (usize, String, u64) {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok((row.count("stage")?, row.get()?, row.count("count")?))
    }
}

impl StageCount {
    /// The counts of every stage of a run, from the rows of a store.
    pub fn gather(stages: usize, rows: Vec<(usize, String, u64)>) -> Vec<Self> {
        let mut counts = vec![Self::default(); stages];
        for (stage, state, count) in rows {
            if let Some(stage) = counts.get_mut(stage) {
                stage.add(&state, count);
            }
        }
        counts
    }

    fn add(&mut self, state: &str, count: u64) {
        match state {
            "ready" => self.ready += count,
            "running" => self.running += count,
            "retrying" => self.retrying += count,
            "skipped" => self.skipped += count,
            "dlq" => self.dlq += count,
            "source_dlq" => self.source_dlq += count,
            _ => {}
        }
    }

    /// The number of samples that have passed each stage, computed from the counts and the total.
    pub fn done(total: u64, stages: &[Self]) -> Vec<u64> {
        let mut left = total;
        let through = |stage: &Self| {
            let ended = stage.skipped + stage.dlq + stage.source_dlq;
            let stuck = stage.ready + stage.running + stage.retrying + ended;
            left = left.saturating_sub(stuck);
            left
        };
        stages.iter().map(through).collect()
    }
}

/// Statistics of a stage in a run, from the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StageStats {
    pub stage: String,
    /// Pairs of a number of attempts and the number of samples that needed that many.
    pub executions: Vec<(u32, u64)>,
    pub outcomes: Vec<(AttemptOutcome, u64)>,
    /// The most frequent first.
    pub codes: Vec<(String, u64)>,
}

/// A stage, a number of attempts, and the number of samples that needed that many.
impl FromRow for (String, u32, u64) {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok((row.get()?, row.count("executions")?, row.count("count")?))
    }
}

/// A stage, an outcome, a code, and the number of attempts that ended so.
impl FromRow for (String, AttemptOutcome, Option<String>, u64) {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let stage = row.get()?;
        let outcome = row.named("outcome", AttemptOutcome::from_name)?;
        Ok((stage, outcome, row.get()?, row.count("count")?))
    }
}

impl StageStats {
    /// Builds the statistics in stage order from the counts of a store: samples by number of
    /// attempts, and attempts by outcome and code.
    pub fn gather(
        stages: &[String],
        executions: Vec<(String, u32, u64)>,
        outcomes: Vec<(String, AttemptOutcome, Option<String>, u64)>,
    ) -> Vec<Self> {
        let of_stage = |name: &String| {
            let counts = executions.iter().filter(|(stage, ..)| stage == name);
            let ended = || outcomes.iter().filter(|(stage, ..)| stage == name);
            let of_outcome = |outcome: AttemptOutcome| {
                let counts = ended().filter(|(_, known, ..)| *known == outcome);
                let count: u64 = counts.map(|(.., count)| count).sum();
                (count > 0).then_some((outcome, count))
            };
            let mut codes: BTreeMap<&str, u64> = BTreeMap::new();
            for (.., code, count) in ended() {
                if let Some(code) = code {
                    *codes.entry(code).or_default() += count;
                }
            }
            let mut codes: Vec<_> =
                codes.into_iter().map(|(code, count)| (code.to_owned(), count)).collect();
            codes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            Self {
                stage: name.clone(),
                executions: counts
                    .map(|(_, executions, samples)| (*executions, *samples))
                    .collect(),
                outcomes: AttemptOutcome::ALL.into_iter().filter_map(of_outcome).collect(),
                codes,
            }
        };
        stages.iter().map(of_stage).collect()
    }
}

#[async_trait]
pub trait Pipelines: Send + Sync {
    /// Starts a run that passes [`NewPipelineRun::check`]. Journal action `pipeline.start`.
    async fn start_pipeline_run(
        &self,
        run: &NewPipelineRun,
        by: &Operator,
    ) -> Result<PipelineRunId>;

    /// Runs by id; unknown ids are omitted.
    async fn pipeline_runs_by_id(&self, ids: &[PipelineRunId]) -> Result<Vec<PipelineRunRecord>>;

    /// A page of matching runs beyond `after` in the order of the page.
    async fn pipeline_runs_page(
        &self,
        filter: &Selection,
        after: PipelineRunId,
        limit: PageLimit,
    ) -> Result<Vec<PipelineRunRecord>>;

    /// Cancels or resumes a run. Claims take nothing from a stopped run; held samples may still
    /// finish. Writes a journal row if the run changed.
    async fn change_pipeline_run(
        &self,
        id: PipelineRunId,
        action: &PipelineAction,
        by: &Operator,
    ) -> Result<PipelineChange>;

    /// Sets the byte from which the source of a run is read on, after the same number of lines. Stale if the run has
    /// read other lines, or a worker reads the source.
    async fn move_source(
        &self,
        id: PipelineRunId,
        position: &SourcePosition,
        journal: &JournalEntry,
    ) -> Result<Written>;

    /// Claims sources that have no reader, of running runs that are not read to the end, the oldest
    /// run first. The record has the position to read from.
    async fn claim_feeds(&self, claim: &SourceClaim) -> Result<Vec<(LeaseRef, PipelineRunRecord)>>;

    /// Ends the reading of sources, each guarded by its epoch.
    async fn finish_feeds(&self, finishes: &[SourceFinish]) -> Result<Vec<Written>>;

    /// The samples of a run by stage and state. Cheap enough for a call per second: reads
    /// unfinished, skipped and dead samples, not succeeded ones.
    async fn stage_counts(&self, id: PipelineRunId) -> Result<Vec<StageCount>>;

    /// Statistics of the stages of a run, in order. Reads all attempts of the run.
    async fn stage_stats(&self, id: PipelineRunId) -> Result<Vec<StageStats>>;

    /// The outstanding work of the served runs: samples and sources.
    async fn pipeline_backlog(&self, served: &Served) -> Result<Backlog>;

    /// When the next waiting sample at a stage of the served runs is due.
    async fn next_sample_due(&self, served: &Served, stage: u32) -> Result<Option<Timestamp>>;
}

/// The stored form of rules.
pub fn rules_to_json(rules: &PipelineRules) -> String {
    let FailureBudget { rate, every, min_samples, exclude } = &rules.budget;
    json!({
        "completed_at": rules.completed_at,
        "partial_at": rules.partial_at,
        "budget": { "rate": rate, "every": every, "min_samples": min_samples, "exclude": exclude },
    })
    .to_string()
}

/// Reads the stored form of rules; a missing field has its default.
fn rules_from_json(text: &str) -> PipelineRules {
    let stored: Value = serde_json::from_str(text).unwrap_or_default();
    let number =
        |pointer, unless| stored.pointer(pointer).and_then(Value::as_f64).unwrap_or(unless);
    let count = |pointer, unless| stored.pointer(pointer).and_then(Value::as_u64).unwrap_or(unless);
    let exclude = stored.pointer("/budget/exclude").and_then(Value::as_array);
    let unless = PipelineRules::default();
    PipelineRules {
        completed_at: number("/completed_at", unless.completed_at),
        partial_at: number("/partial_at", unless.partial_at),
        budget: FailureBudget {
            rate: number("/budget/rate", unless.budget.rate),
            every: count("/budget/every", unless.budget.every),
            min_samples: count("/budget/min_samples", unless.budget.min_samples),
            exclude: exclude
                .into_iter()
                .flatten()
                .filter_map(|class| class.as_str().map(str::to_owned))
                .collect(),
        },
    }
}
