//! Samples at one stage of a pipeline, as work for the loop.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Cause, Decision, Failure, History, HumanDuration, JitterKey, JitterSeed,
    Message, SampleId, Unit, decide, named,
};
use redrive_store::{
    Backlog, ClaimedSample, ExpiredLease, LeaseRef, LeaseRelease, Leased, MAX_SAMPLE_BYTES, Result,
    SampleClaim, SampleEnding, SampleFinish, SampleRecord, SampleWritten, Served, Store, WorkerId,
    Written,
};
use serde_json::{Map, Value};

use super::{Pipeline, Stage, TOO_LARGE, next_stage::NextStage, stage::for_good};
use crate::{
    handlers::handler::{Call, Outcome},
    traces::{TracedAttempt, Traces},
    worker::{
        handoff::Handoff,
        work::{Ending, Work, WorkerLimits},
    },
};
use redrive_retry::{Clock, Stop};

/// Does the samples at a stage.
pub(crate) struct StageWork {
    name: String,
    served: Served,
    stage: Stage,
    place: u32,
    /// Where samples go from here; none if this is the last one.
    next: Option<NextStage>,
    handoff: Arc<Handoff<ClaimedSample>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    worker: WorkerId,
    jitter_seed: JitterSeed,
    traces: Traces,
}

impl StageWork {
    /// The works of all stages of a pipeline.
    pub(crate) fn each<'a>(
        pipeline: &'a Pipeline,
        store: &'a Arc<dyn Store>,
        clock: &'a Arc<dyn Clock>,
        worker: &'a WorkerId,
        jitter_seed: JitterSeed,
        traces: &'a Traces,
    ) -> impl Iterator<Item = Self> + 'a {
        let handoffs: Vec<Arc<Handoff<ClaimedSample>>> =
            pipeline.stages.iter().map(|_| Arc::default()).collect();
        let nexts = (0..).zip(&pipeline.stages).zip(handoffs.clone()).skip(1);
        let nexts = nexts.map(|((place, stage), handoff)| {
            Some(NextStage { place, lease: stage.limits.lease, handoff })
        });
        let nexts: Vec<Option<NextStage>> = nexts.chain([None]).collect();
        let stages = (0..).zip(&pipeline.stages).zip(handoffs).zip(nexts);
        stages.map(move |(((place, stage), handoff), next)| Self {
            name: format!("{}/{}", pipeline.name, stage.name),
            served: pipeline.served(),
            stage: stage.clone(),
            place,
            next,
            handoff,
            store: store.clone(),
            clock: clock.clone(),
            worker: worker.clone(),
            jitter_seed,
            traces: traces.clone(),
        })
    }

    fn call(&self, sample: &ClaimedSample) -> Call {
        let data = serde_json::from_str(&sample.data).unwrap_or(Value::Null);
        let details = Map::from_iter([
            ("pipeline".to_owned(), self.served.pipeline.clone().into()),
            ("stage".to_owned(), self.stage.name.clone().into()),
            ("sample".to_owned(), sample.id.0.into()),
            ("data".to_owned(), data),
        ]);
        let run_id = Some(sample.run.to_string());
        let mut call =
            Call { unit: self.unit(sample.id), attempt: sample.attempt, run_id, details };
        self.traces.add_traceparent(&mut call);
        call
    }

    fn unit(&self, id: SampleId) -> Unit {
        Unit::Sample { id, stage: self.stage.name.clone() }
    }

    fn ending(
        &self,
        id: SampleId,
        history: History,
        outcome: Outcome,
        started_at: Timestamp,
        now: Timestamp,
    ) -> Option<SampleEnding> {
        let failure = match outcome {
            Outcome::Stopped => return None,
            Outcome::Skipped(why) => {
                return Some(SampleEnding::Skipped(Message::clean(&why).as_str().to_owned()));
            }
            Outcome::Answered { value: Some(value), .. } => match bounded(&value) {
                Ok(data) => return Some(SampleEnding::Answered(data)),
                Err(failure) => failure,
            },
            Outcome::Answered { value: None, .. } => {
                let message = "a stage answers with the new sample, and there is none";
                Failure::named(named::BAD_REPLY, Cause::Handler, message)
            }
            Outcome::Failed(failure) => failure,
        };
        let first_attempt_at = history.first_attempt_at.or(Some(started_at));
        let history = History { first_attempt_at, ..history };
        let jitter = JitterKey::new(self.jitter_seed, &self.unit(id));
        let decision = decide(&self.stage.policy, &history, &failure, now, jitter);
        Some(SampleEnding::Failed { failure, decision })
    }

    /// A sample that goes on stays with this worker, if the next stage has a place for it.
    fn keep_until(&self, ending: &SampleEnding) -> Option<Timestamp> {
        match (&self.next, ending) {
            (Some(next), SampleEnding::Answered(_)) => next.keep_until(self.store.now()),
            _ => None,
        }
    }

    fn finish_of_lost(
        &self,
        sample: &SampleRecord,
        expired: &ExpiredLease,
    ) -> Option<SampleFinish> {
        let now = self.clock.now();
        let message = format!("no word from worker {} since its lease ended", expired.owner);
        let lost = Outcome::Failed(Failure::lost_worker(&message));
        let history = sample.history();
        Some(SampleFinish {
            id: sample.id,
            run: sample.run,
            epoch: expired.lease.epoch,
            stage: self.place,
            stage_name: self.stage.name.clone(),
            last_stage: self.next.is_none(),
            stage_config_hash: self.stage.config_hash.clone(),
            attempt: AttemptNumber(sample.attempts.saturating_add(1)),
            history,
            started_at: now,
            ended_at: now,
            worker: expired.owner.clone(),
            keep_until: None,
            ending: self.ending(sample.id, history, lost, now, now)?,
        })
    }
}

fn all(written: Vec<SampleWritten>) -> Vec<Written> {
    written.into_iter().map(Written::from).collect()
}

/// The new sample as JSON, if it is not too large to keep.
fn bounded(value: &Value) -> std::result::Result<String, Failure> {
    let data = value.to_string();
    if data.len() <= MAX_SAMPLE_BYTES {
        return Ok(data);
    }
    let bytes = data.len();
    let message = format!("the new sample has {bytes} bytes, {MAX_SAMPLE_BYTES} are allowed");
    Err(for_good(TOO_LARGE, &message))
}

#[async_trait]
impl Work for StageWork {
    type Unit = ClaimedSample;
    type Outcome = Outcome;
    type End = SampleFinish;

    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> WorkerLimits {
        self.stage.limits.within(self.stage.handler.capacity())
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

    async fn claim(&self, limit: u32, until: Timestamp) -> Result<Vec<ClaimedSample>> {
        let claim = SampleClaim {
            served: self.served.clone(),
            stage: self.place,
            limit,
            owner: self.worker.clone(),
            lease_until: until,
            now: self.clock.now(),
        };
        self.store.claim_samples(&claim).await
    }

    fn handoff(&self) -> Option<&Handoff<ClaimedSample>> {
        (self.place > 0).then_some(&*self.handoff)
    }

    fn lease(&self, sample: &ClaimedSample) -> LeaseRef {
        LeaseRef { id: sample.id.0, epoch: sample.epoch }
    }

    async fn handle(&self, sample: &ClaimedSample, stop: Stop) -> Outcome {
        self.stage.handler.handle(&self.call(sample), self.stage.time_limit, stop).await
    }

    fn end(
        &self,
        sample: &ClaimedSample,
        outcome: Outcome,
        started_at: Timestamp,
        ended_at: Timestamp,
    ) -> Ending<SampleFinish> {
        let (id, history) = (sample.id, sample.history);
        let Some(ending) = self.ending(id, history, outcome, started_at, ended_at) else {
            return Ending::LeaseRelease;
        };
        Ending::Finish(SampleFinish {
            id,
            run: sample.run,
            epoch: sample.epoch,
            stage: self.place,
            stage_name: self.stage.name.clone(),
            last_stage: self.next.is_none(),
            stage_config_hash: self.stage.config_hash.clone(),
            attempt: sample.attempt,
            history,
            started_at,
            ended_at,
            worker: self.worker.clone(),
            keep_until: self.keep_until(&ending),
            ending,
        })
    }

    fn end_lease(&self, end: &SampleFinish) -> LeaseRef {
        LeaseRef { id: end.id.0, epoch: end.epoch }
    }

    async fn finish(&self, ends: &[SampleFinish]) -> Result<Vec<Written>> {
        let Some(next) = &self.next else { return self.store.finish_samples(ends).await.map(all) };
        match (next.finish(&*self.store, ends).await, ends) {
            // It is not written again.
            (Err(refusal), [end]) if !refusal.is_transient() => {
                next.forget(end);
                Err(refusal)
            }
            (written, _) => written.map(all),
        }
    }

    fn written(&self, end: &SampleFinish, written: Written) {
        log_end(&self.name, end, written);
    }

    fn attempt(&self, end: &SampleFinish) -> Option<TracedAttempt> {
        Some(TracedAttempt {
            unit: self.unit(end.id),
            place: self.name.clone(),
            details: vec![
                ("pipeline", self.served.pipeline.clone()),
                ("pipeline_run", end.run.to_string()),
                ("stage", self.stage.name.clone()),
            ],
            row: end.ledger_row(),
        })
    }

    fn traces(&self) -> Option<&Traces> {
        Some(&self.traces)
    }

    async fn renew(&self, leases: &[LeaseRef], until: Timestamp) -> Result<Vec<Written>> {
        self.store.renew_leases(Leased::Sample, leases, until).await
    }

    async fn release_leases(&self, leases: &[LeaseRef], why: &str) -> Result<Vec<Written>> {
        let releases = LeaseRelease::each(leases, &self.worker, why);
        self.store.release_leases(Leased::Sample, &releases, self.clock.now()).await
    }

    async fn expired(&self, by: Timestamp, after: i64, limit: u32) -> Result<Vec<ExpiredLease>> {
        self.store.expired_leases(Leased::Sample, by, after, limit).await
    }

    async fn next_lease_end(&self, after: Timestamp) -> Result<Option<Timestamp>> {
        self.store.next_lease_end(Leased::Sample, after).await
    }

    async fn lost(&self, expired: &[ExpiredLease]) -> Result<Vec<SampleFinish>> {
        let ids: Vec<SampleId> = expired.iter().map(|expired| SampleId(expired.lease.id)).collect();
        let samples = self.store.samples_by_id(&ids).await?;
        // A run of other stages may have one of this name elsewhere.
        let ours = samples.iter().filter(|sample| {
            let here = sample.stage == self.place && sample.stage_name == self.stage.name;
            here && sample.pipeline == self.served.pipeline
        });
        let end = |sample: &SampleRecord| {
            let of_sample = |expired: &&ExpiredLease| expired.lease.id == sample.id.0;
            let expired = expired.iter().find(of_sample)?;
            let held = expired.lease.epoch == sample.lease_epoch && sample.lease_owner.is_some();
            held.then(|| self.finish_of_lost(sample, expired))?
        };
        Ok(ours.filter_map(end).collect())
    }

    async fn backlog(&self) -> Result<Backlog> {
        let all = self.store.pipeline_backlog(&self.served).await?;
        Ok(backlog_of_one(all, self.next_due().await?))
    }

    async fn next_due(&self) -> Result<Option<Timestamp>> {
        self.store.next_sample_due(&self.served, self.place).await
    }
}

/// The outlook of one of the loops of a pipeline. What others have to do may still lead to something
/// here; but it is no time to look again, or what is due where all slots are taken would have the others
/// look all the time.
pub(super) fn backlog_of_one(all: Backlog, next_due: Option<Timestamp>) -> Backlog {
    Backlog { held: all.held || all.next_due.is_some(), next_due, ..all }
}

/// How an attempt ended, once that is written.
fn log_end(work: &str, end: &SampleFinish, written: Written) {
    let (sample, attempt) = (end.id.0, end.attempt.0);
    if written == Written::Stale {
        tracing::warn!(work, sample, attempt, epoch = end.epoch.0, "a late result was refused");
        return;
    }
    match &end.ending {
        SampleEnding::Answered(_) if attempt > 1 => {
            tracing::info!(work, sample, attempt, "succeeded after retries");
        }
        SampleEnding::Answered(_) => tracing::debug!(work, sample, attempt, "succeeded"),
        SampleEnding::Skipped(why) => tracing::debug!(work, sample, attempt, why, "skipped"),
        SampleEnding::Failed { failure, decision } => {
            let (class, code) = (failure.class().name(), failure.code().to_string());
            let error = failure.message().as_str();
            match decision {
                Decision::RetryAt { delay, .. } => {
                    let delay = HumanDuration::from(*delay);
                    tracing::info!(work, sample, attempt, class, code, error, "retry in {delay}");
                }
                Decision::GiveUp { reason } => {
                    tracing::warn!(work, sample, attempt, class, code, error, "dead: {reason}");
                }
            }
        }
    }
}
