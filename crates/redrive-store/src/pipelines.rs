//! Runs of pipelines: a source, the stages its samples go through, and how far a run has got.
//!
//! The row of a run holds where its source is read and what became of its samples, and changes in the
//! transactions that add and end samples. So the counts are always the sum of the samples, and the
//! failure budget is looked at after exactly so many of them ([`PipelineProgress`]). Whoever reads the
//! source holds the run by a lease, [`Leased::Feed`](crate::Leased::Feed); samples have their own.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    BudgetCount, BudgetExceeded, Epoch, Failure, FailureBudget, PipelineProgress, PipelineRules,
    PipelineRunId, PipelineStatus, SampleCounts,
};
use serde_json::{Value, json};

use crate::{
    AttemptOutcome, Backlog, Error, LeaseRef, NewSample, Operator, PipelineAction, PipelineChange,
    PrunedSamples, Result, WorkerId, Written,
};

/// A run of a pipeline to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPipelineRun {
    /// The pipeline.
    pub pipeline: String,
    /// Its stages, in order; never empty.
    pub stages: Vec<String>,
    /// How it is judged.
    pub rules: PipelineRules,
    /// How many unfinished samples are kept at a time.
    pub read_ahead: u32,
    /// What the source is, for people.
    pub source: String,
}

impl NewPipelineRun {
    /// Refuses a run that no worker could finish.
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

/// How far a source has been read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourcePosition {
    /// How many lines. Every one that is not blank is a sample.
    pub lines: u64,
    /// How many bytes, for a source that has them.
    pub bytes: u64,
    /// What the part that was read looks like, so that a changed source is noticed.
    pub check: Option<String>,
    /// Whether that was all.
    pub done: bool,
}

/// A run of a pipeline as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineRunRecord {
    /// Its id.
    pub id: PipelineRunId,
    /// The pipeline.
    pub pipeline: String,
    /// Its stages, in order.
    pub stages: Vec<String>,
    /// How it is judged.
    pub rules: PipelineRules,
    /// How many unfinished samples are kept at a time.
    pub read_ahead: u32,
    /// What the source is, for people.
    pub source: String,
    /// How far the source has been read. Its `done` is `SampleCounts::source_done`.
    pub position: SourcePosition,
    /// Its status, where its samples are, and what counts against its budget.
    pub progress: PipelineProgress,
    /// When it began.
    pub started_at: Timestamp,
    /// Who began it.
    pub started_by: String,
    /// When it ended or was stopped.
    pub ended_at: Option<Timestamp>,
    /// Why it was stopped.
    pub stop_reason: Option<String>,
    /// Who reads the source.
    pub feed: Option<ExpiringLease>,
    /// The last epoch the source was read under.
    pub feed_epoch: Epoch,
    /// Its samples that were pruned, and that its counts still have.
    pub pruned: PrunedSamples,
}

/// Who holds something, and until when on the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiringLease {
    /// Who.
    pub owner: WorkerId,
    /// Until when.
    pub until: Timestamp,
}

impl ExpiringLease {
    /// From its columns, which are both there or not.
    pub fn of(owner: Option<WorkerId>, until: Option<Timestamp>) -> Option<Self> {
        owner.zip(until).map(|(owner, until)| Self { owner, until })
    }
}

impl PipelineRunRecord {
    /// The name of a stage, by its place.
    pub fn stage_name(&self, stage: u32) -> &str {
        let name = usize::try_from(stage).ok().and_then(|place| self.stages.get(place));
        name.map_or("", String::as_str)
    }

    /// Whether samples may be added under a lease: the source is read under it, and the run goes on.
    pub fn is_fed_by(&self, lease: LeaseRef) -> bool {
        let held = self.feed.is_some() && self.feed_epoch == lease.epoch;
        held && self.progress.status == PipelineStatus::Running
    }

    /// The samples that were not added yet: all, or none if they came before and only the answer was
    /// lost.
    pub fn unread<'a>(
        &self,
        samples: &'a [NewSample],
        position: &SourcePosition,
    ) -> &'a [NewSample] {
        if position.lines > self.position.lines { samples } else { &[] }
    }

    /// By how much it exceeds its failure budget, if it does.
    pub fn budget_exceeded(&self) -> Option<BudgetExceeded> {
        self.rules.budget.exceeded(self.progress.budget)
    }
}

/// Which runs of which pipeline a worker serves. The stages must be the very ones a run began with:
/// a run of other stages is left to a program that knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The pipeline.
    pub pipeline: String,
    /// Its stages, in order.
    pub stages: Vec<String>,
    /// One run alone, or every run.
    pub run: Option<PipelineRunId>,
}

/// Whoever asks for sources to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceClaim {
    /// Of which runs.
    pub served: Served,
    /// At most so many.
    pub limit: u32,
    /// For whom.
    pub owner: WorkerId,
    /// The end of the lease, on the store's clock.
    pub lease_until: Timestamp,
}

/// The end of reading a source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceFinish {
    /// The run, and the epoch under which its source was read.
    pub lease: LeaseRef,
    /// Why it cannot be read any further, if so; the run is stopped then. Otherwise the source was
    /// read to its end, or its reader was lost, and whoever comes next goes on.
    pub failure: Option<Failure>,
    /// When.
    pub at: Timestamp,
    /// Who read it.
    pub worker: WorkerId,
}

/// Which runs to list. Everything given must match exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PipelineRunFilter {
    /// Of this pipeline.
    pub pipeline: Option<String>,
    /// In this status.
    pub status: Option<PipelineStatus>,
}

/// Where the samples of a run are, at one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageCount {
    /// Ready for the stage.
    pub ready: u64,
    /// Held by a worker.
    pub running: u64,
    /// Waiting for a retry.
    pub retrying: u64,
    /// Passed over by it.
    pub skipped: u64,
    /// Dead letters of it.
    pub dlq: u64,
}

impl StageCount {
    /// Adds what a store counted, by the name of this field.
    pub fn add(&mut self, state: &str, count: u64) {
        match state {
            "ready" => self.ready += count,
            "running" => self.running += count,
            "retrying" => self.retrying += count,
            "skipped" => self.skipped += count,
            "dlq" => self.dlq += count,
            _ => {}
        }
    }

    /// How many samples are through each stage, from where they are and how many there are.
    pub fn done(total: u64, stages: &[Self]) -> Vec<u64> {
        let mut left = total;
        let through = |stage: &Self| {
            let stuck = stage.ready + stage.running + stage.retrying + stage.skipped + stage.dlq;
            left = left.saturating_sub(stuck);
            left
        };
        stages.iter().map(through).collect()
    }
}

/// How a stage has fared in a run, from the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StageStats {
    /// The stage.
    pub stage: String,
    /// How many samples needed how many executions there, by that number.
    pub executions: Vec<(u32, u64)>,
    /// How many attempts ended in which outcome.
    pub outcomes: Vec<(AttemptOutcome, u64)>,
    /// How many attempts failed with which code, the most frequent first.
    pub codes: Vec<(String, u64)>,
}

impl StageStats {
    /// How stages have fared, in their order, from what a store counted: how many samples of a stage
    /// had how many executions, and how many attempts of a stage ended how and with which code.
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

/// The pipelines of a store.
#[async_trait]
pub trait Pipelines: Send + Sync {
    /// Begins a run that [`NewPipelineRun::check`] does not refuse. Journalled as `pipeline.start`.
    async fn start_pipeline_run(
        &self,
        run: &NewPipelineRun,
        by: &Operator,
    ) -> Result<PipelineRunId>;

    /// Runs by id; unknown ids are left out.
    async fn pipeline_runs_by_id(&self, ids: &[PipelineRunId]) -> Result<Vec<PipelineRunRecord>>;

    /// The runs that match, the newest first, older than an id, a page at a time.
    async fn pipeline_runs_page(
        &self,
        filter: &PipelineRunFilter,
        before: PipelineRunId,
        limit: u32,
    ) -> Result<Vec<PipelineRunRecord>>;

    /// Stops a run or has it go on. A run that is stopped gives nothing to claims from then on; what is
    /// held may still end. Journalled, unless nothing changed.
    async fn change_pipeline_run(
        &self,
        id: PipelineRunId,
        action: &PipelineAction,
        by: &Operator,
    ) -> Result<PipelineChange>;

    /// Takes sources that nobody reads, of runs that go on and are not read to their end, the oldest
    /// run first. The record says from where to read.
    async fn claim_feeds(&self, claim: &SourceClaim) -> Result<Vec<(LeaseRef, PipelineRunRecord)>>;

    /// Ends the reading of sources, each guarded by its epoch.
    async fn finish_feeds(&self, finishes: &[SourceFinish]) -> Result<Vec<Written>>;

    /// Where the samples of a run are, one count for each of its stages. Cheap enough to be asked
    /// every second: it reads what is unfinished, skipped and dead, not what is done.
    async fn stage_counts(&self, id: PipelineRunId) -> Result<Vec<StageCount>>;

    /// How the stages of a run have fared, in their order, from the ledger. Reads all of it.
    async fn stage_stats(&self, id: PipelineRunId) -> Result<Vec<StageStats>>;

    /// What the served runs still have to do: samples and sources.
    async fn pipeline_backlog(&self, served: &Served) -> Result<Backlog>;

    /// When the next waiting sample of the served runs is due, at a stage.
    async fn next_sample_due(&self, served: &Served, stage: u32) -> Result<Option<Timestamp>>;
}

/// Rules as they are stored.
pub fn rules_to_json(rules: &PipelineRules) -> String {
    let FailureBudget { rate, every, min_samples, exclude } = &rules.budget;
    json!({
        "completed_at": rules.completed_at,
        "partial_at": rules.partial_at,
        "budget": { "rate": rate, "every": every, "min_samples": min_samples, "exclude": exclude },
    })
    .to_string()
}

/// Rules from how they are stored; what is missing is as it is by default.
pub fn rules_from_json(text: &str) -> PipelineRules {
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

/// The progress of a run, from its columns.
pub fn progress_of(
    status: PipelineStatus,
    [total, succeeded, skipped, dlq]: [u64; 4],
    source_done: bool,
    [processed, failed]: [u64; 2],
) -> PipelineProgress {
    PipelineProgress {
        status,
        counts: SampleCounts { total, succeeded, skipped, dlq, source_done },
        budget: BudgetCount { processed, failed },
    }
}
