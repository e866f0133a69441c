//! Fixtures for pipelines.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use redrive_core::{
    AttemptNumber, Decision, Failure, FailureBudget, GiveUpReason, PipelineProgress, PipelineRules,
    PipelineRunId, PipelineStatus, SampleCounts, SampleId,
};

use super::{
    Fixture,
    samples::{at, operator},
};
use redrive_store::{
    AttemptRecord, ClaimedSample, GateRules, JournalEntry, JournalFilter, LeaseRef, NewPipelineRun,
    NewSample, PipelineAction, PipelineChange, PipelineRunRecord, SampleClaim, SampleCompletion,
    SampleFinish, SampleRecord, SampleWritten, Served, SourceClaim, SourcePosition, UnitKind,
    UnitRow, WorkerId,
};

/// The stages of the pipeline `p`.
pub(super) const STAGES: [&str; 2] = ["clean", "score"];

/// A run of the pipeline `p` that no budget stops.
pub(super) fn new_run() -> NewPipelineRun {
    let budget = FailureBudget { rate: 1.0, ..FailureBudget::default() };
    NewPipelineRun {
        pipeline: "p".to_owned(),
        stages: STAGES.map(str::to_owned).to_vec(),
        rules: PipelineRules { budget, ..PipelineRules::default() },
        read_ahead: 10_000,
        source: "lines.jsonl".to_owned(),
    }
}

/// Every run of the pipeline `p`.
pub(super) fn served() -> Served {
    Served { pipeline: "p".to_owned(), stages: new_run().stages, run: None }
}

/// A claim of up to `limit` samples of `p` at a stage, held for a minute.
pub(super) fn claim_at(stage: u32, limit: u32, now: Timestamp) -> SampleClaim {
    SampleClaim {
        gates: GateRules::default(),
        gate_key: None,
        served: served(),
        stage,
        limit,
        owner: WorkerId("w1".to_owned()),
        lease_until: now + SignedDuration::from_secs(60),
        now,
    }
}

/// A claim of the source of `p`, held for a minute.
pub(super) fn feed_claim(now: Timestamp) -> SourceClaim {
    SourceClaim {
        served: served(),
        limit: 10,
        owner: WorkerId("w1".to_owned()),
        lease_until: now + SignedDuration::from_secs(60),
    }
}

/// The lines of a source from a number on, each a sample.
pub(super) fn lines(numbers: std::ops::RangeInclusive<u64>) -> Vec<NewSample> {
    let sample = |line| NewSample { line, data: Ok(format!("{{\"n\": {line}}}")), hash: None };
    numbers.map(sample).collect()
}

/// The place in a source after so many lines.
pub(super) fn position(lines: u64, done: bool) -> SourcePosition {
    SourcePosition { lines, bytes: lines * 9, check: Some(format!("after {lines}")), done }
}

pub(super) fn answered(data: &str) -> SampleCompletion {
    SampleCompletion::Answered(data.to_owned())
}

pub(super) fn skipped() -> SampleCompletion {
    SampleCompletion::Skipped("not ours".to_owned())
}

/// A failure that is tried again, counted or after a server's hint.
pub(super) fn retried(at: Timestamp, delay: Duration, counted: bool) -> SampleCompletion {
    let hint = (!counted).then_some(delay);
    let due = at + SignedDuration::try_from(delay).expect("a short delay");
    SampleCompletion::Failed {
        failure: Failure::http(if counted { 503 } else { 429 }, hint, "busy"),
        decision: Decision::RetryAt { at: due, delay, counted },
    }
}

/// A failure that ends a sample.
pub(super) fn dead(failure: Failure) -> SampleCompletion {
    SampleCompletion::Failed { failure, decision: Decision::GiveUp { reason: GiveUpReason::Final } }
}

pub(super) fn broken() -> SampleCompletion {
    dead(Failure::http(422, None, "broken sample 7"))
}

/// The end of an attempt at a stage that took a second.
pub(super) fn ended(
    sample: &ClaimedSample,
    stage: u32,
    ended_at: Timestamp,
    completion: SampleCompletion,
) -> SampleFinish {
    SampleFinish {
        gates: None,
        id: sample.id,
        run: sample.run,
        epoch: sample.epoch,
        stage,
        stage_name: STAGES[stage as usize].to_owned(),
        last_stage: stage == 1,
        stage_config_hash: format!("hash of {stage}"),
        attempt: sample.attempt,
        history: sample.history,
        started_at: ended_at - SignedDuration::from_secs(1),
        ended_at,
        worker: WorkerId("w1".to_owned()),
        keep_until: None,
        completion,
    }
}

pub(super) fn sample_lease(sample: &ClaimedSample) -> LeaseRef {
    LeaseRef { id: sample.id.0, epoch: sample.epoch }
}

pub(super) fn counts(
    [total, succeeded, skipped, dlq]: [u64; 4],
    source_done: bool,
) -> SampleCounts {
    SampleCounts { total, succeeded, skipped, dlq, source_done }
}

impl Fixture {
    /// Begins a run, and takes its source.
    pub(super) async fn reading(&self, run: &NewPipelineRun) -> LeaseRef {
        let id = self.store.start_pipeline_run(run, &operator(at(0))).await.expect("started");
        let (pipeline, stages) = (run.pipeline.clone(), run.stages.clone());
        let served = Served { pipeline, stages, run: Some(id) };
        let claim = SourceClaim { served, ..feed_claim(at(0)) };
        let mut claimed = self.store.claim_feeds(&claim).await.expect("claimed");
        claimed.pop().expect("a source to read").0
    }

    /// Adds lines to a run, which must be read under this lease.
    pub(super) async fn feed(
        &self,
        feed: LeaseRef,
        samples: &[NewSample],
        done: bool,
    ) -> PipelineRunRecord {
        let last = samples.last().map_or(0, |sample| sample.line);
        let added = self.store.append_samples(feed, samples, &position(last, done), at(1)).await;
        added.expect("answered").expect("the source is ours")
    }

    /// A run of `p` whose source had so many samples.
    pub(super) async fn run_of(&self, samples: u64) -> PipelineRunId {
        let feed = self.reading(&new_run()).await;
        self.feed(feed, &lines(1..=samples), true).await;
        PipelineRunId(feed.id)
    }

    /// Takes samples at a stage.
    pub(super) async fn samples_at(
        &self,
        stage: u32,
        limit: u32,
        now: Timestamp,
    ) -> Vec<ClaimedSample> {
        self.store.claim_samples(&claim_at(stage, limit, now)).await.expect("claimed")
    }

    /// Takes the one sample that is to be had at a stage.
    pub(super) async fn sample_at(&self, stage: u32, now: Timestamp) -> ClaimedSample {
        self.samples_at(stage, 1, now).await.pop().expect("a sample to claim")
    }

    /// Ends an attempt, which must be applied.
    pub(super) async fn end_sample(
        &self,
        sample: &ClaimedSample,
        stage: u32,
        now: Timestamp,
        completion: SampleCompletion,
    ) {
        let written = self.store.finish_samples(&[ended(sample, stage, now, completion)]).await;
        assert_eq!(written.expect("answered"), [SampleWritten::Applied]);
    }

    /// Has samples of `p` end at the first stage, each its own way.
    pub(super) async fn end_each(&self, now: Timestamp, completions: Vec<SampleCompletion>) {
        let limit = u32::try_from(completions.len()).expect("a few");
        let claimed = self.samples_at(0, limit, now).await;
        assert_eq!(claimed.len(), completions.len());
        let finishes: Vec<_> = claimed
            .iter()
            .zip(completions)
            .map(|(sample, completion)| SampleFinish {
                last_stage: true,
                ..ended(sample, 0, now, completion)
            })
            .collect();
        let written = self.store.finish_samples(&finishes).await.expect("answered");
        assert!(written.iter().all(|it| *it == SampleWritten::Applied), "{written:?}");
    }

    pub(super) async fn sample(&self, id: SampleId) -> SampleRecord {
        let mut samples = self.store.samples_by_id(&[id]).await.expect("read");
        samples.pop().expect("the sample is there")
    }

    pub(super) async fn pipeline_run(&self, id: PipelineRunId) -> PipelineRunRecord {
        let mut runs = self.store.pipeline_runs_by_id(&[id]).await.expect("read");
        runs.pop().expect("the run is there")
    }

    pub(super) async fn progress(&self, id: PipelineRunId) -> PipelineProgress {
        self.pipeline_run(id).await.progress
    }

    pub(super) async fn change_run(
        &self,
        id: PipelineRunId,
        action: PipelineAction,
    ) -> PipelineChange {
        self.store.change_pipeline_run(id, &action, &operator(at(50))).await.expect("answered")
    }

    pub(super) async fn cancel_pipeline_run(&self, id: PipelineRunId) {
        let done = PipelineChange::Done(PipelineStatus::Running);
        assert_eq!(self.change_run(id, PipelineAction::Cancel).await, done);
    }

    /// The ledger of a sample at a stage.
    pub(super) async fn sample_attempts(&self, id: SampleId, stage: &str) -> Vec<AttemptRecord> {
        let unit = UnitRow { kind: UnitKind::Sample, id: id.0, stage: stage.to_owned() };
        self.store.attempts_of(&unit, AttemptNumber(0), 1_000).await.expect("read")
    }

    /// What the journal says by an action.
    pub(super) async fn told_by(&self, action: &str) -> Vec<JournalEntry> {
        let filter = JournalFilter { unit: None, action: Some(action.to_owned()) };
        let page = self.store.journal_page(&filter, 0, 1_000).await.expect("read");
        page.into_iter().map(|record| record.entry).collect()
    }
}
