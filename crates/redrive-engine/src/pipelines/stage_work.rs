//! The samples at one stage of a pipeline, as work for the worker loop.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Cause, Decision, Failure, History, HumanDuration, Message, SampleId, Unit, named,
};
use redrive_retry::Stop;
use redrive_store::{
    Backlog, ClaimedSample, ExpiredLease, LeaseRef, Leased, MAX_SAMPLE_BYTES, Result, SampleClaim,
    SampleCompletion, SampleFinish, SampleRecord, SampleWritten, Served, UnitKind, UnitRow,
    Written, gate_key_at,
};
use serde_json::{Map, Value};
use tokio::{sync::watch, time::Instant};

use super::{Pipeline, Stage, TOO_LARGE, next_stage::NextStage, stage::final_failure};
use crate::{
    gates::work_gates::{Start, WorkGates},
    handlers::handler::{Call, Outcome},
    logs::WorkLogs,
    traces::{TracedAttempt, Traces},
    worker::{
        failures::lost_worker,
        handoff::Handoff,
        reporter::PlaceCounts,
        unit_leases::{StoreLeases, UnitLeases, WorkContext},
        work::{Completion, Work, WorkerLimits},
    },
};

pub(crate) struct StageWork {
    name: String,
    served: Served,
    stage: Stage,
    place: u32,
    /// Where samples go from here; none if this is the last one.
    next: Option<NextStage>,
    handoff: Arc<Handoff<ClaimedSample>>,
    context: WorkContext,
    leases: StoreLeases,
    gates: WorkGates,
    logs: Arc<WorkLogs>,
    counts: PlaceCounts,
}

impl StageWork {
    /// The work of each stage of a pipeline, in order.
    pub(crate) fn each<'a>(
        pipeline: &'a Pipeline,
        context: &'a WorkContext,
    ) -> impl Iterator<Item = Self> + 'a {
        let handoffs: Vec<Arc<Handoff<ClaimedSample>>> =
            pipeline.stages.iter().map(|_| Arc::default()).collect();
        let nexts = (0..).zip(&pipeline.stages).zip(handoffs.clone()).skip(1);
        let nexts = nexts.map(|((place, stage), handoff)| {
            let has_gates = !stage.gates.is_empty();
            Some(NextStage { place, lease: stage.limits.lease, has_gates, handoff })
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
            context: context.clone(),
            leases: context.leases(Leased::Sample),
            gates: context.gates(stage.gates.clone()),
            logs: WorkLogs::new(stage.limits.log, context),
            counts: PlaceCounts::new(UnitKind::Sample),
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
        let (unit, attempt) = (self.unit(sample.id), sample.attempt);
        let stage = self.stage.name.clone();
        let row = UnitRow { stage, ..UnitRow::new(UnitKind::Sample, sample.id.0) };
        let log = self.logs.of_attempt(row, attempt, self.lease(sample));
        let mut call = Call { unit, attempt, run_id, details, log };
        self.context.traces.add_traceparent(&mut call);
        call
    }

    /// What a sample with this data passes the gates with.
    fn key_of(&self, data: &str) -> String {
        let Some(pointer) = &self.stage.gate_key else { return String::new() };
        gate_key_at(&serde_json::from_str(data).unwrap_or_default(), pointer)
    }

    fn unit(&self, id: SampleId) -> Unit {
        Unit::Sample { id, stage: self.stage.name.clone() }
    }

    fn completion(
        &self,
        id: SampleId,
        history: History,
        outcome: Outcome,
        started_at: Timestamp,
        now: Timestamp,
    ) -> Option<SampleCompletion> {
        let failure = match outcome {
            Outcome::Stopped => return None,
            Outcome::Skipped(why) => {
                return Some(SampleCompletion::Skipped(Message::clean(&why).as_str().to_owned()));
            }
            Outcome::Answered { value: Some(value), .. } => match bounded(&value) {
                Ok(data) => return Some(SampleCompletion::Answered(data)),
                Err(failure) => failure,
            },
            Outcome::Answered { value: None, .. } => {
                let message = "the handler answered without a sample";
                Failure::named(named::BAD_REPLY, Cause::Handler, message)
            }
            Outcome::Failed(failure) => failure,
        };
        let (policy, unit) = (&self.stage.policy, self.unit(id));
        let decision = self.context.decide(policy, &unit, history, &failure, (started_at, now));
        Some(SampleCompletion::Failed { failure, decision })
    }

    /// The lease end of a sample that advances and stays with this worker; `None` if the next stage has no free slot.
    fn keep_until(&self, held: LeaseRef, completion: &SampleCompletion) -> Option<Timestamp> {
        match (&self.next, completion) {
            (Some(next), SampleCompletion::Answered(_)) => {
                next.keep_until(held, self.context.store.now())
            }
            _ => None,
        }
    }

    async fn finish_of_lost(
        &self,
        sample: &SampleRecord,
        expired: &ExpiredLease,
    ) -> Result<Option<SampleFinish>> {
        let (started_at, ended_at) = self.context.times_of_lost(expired);
        let outcome = Outcome::Failed(lost_worker(&expired.owner));
        let unit = UnitRow {
            stage: self.stage.name.clone(),
            ..UnitRow::new(UnitKind::Sample, sample.id.0)
        };
        let policy = &self.stage.policy;
        let lost = self.context.lost_before(policy, &unit, sample.attempts_at_reset).await?;
        let mut history = History { lost, ..sample.history() };
        let key = self.key_of(sample.data.as_deref().unwrap_or_default());
        let of_sample = std::iter::once((key.as_str(), &mut history));
        self.gates.note_closed_time(&self.context, policy, of_sample).await;
        let completion = self.completion(sample.id, history, outcome, started_at, ended_at);
        let gates = self.gates.passed(&key);
        Ok(completion.map(|completion| SampleFinish {
            gates,
            id: sample.id,
            run: sample.run,
            epoch: expired.lease.epoch,
            stage: self.place,
            stage_name: self.stage.name.clone(),
            last_stage: self.next.is_none(),
            stage_config_hash: self.stage.config_hash.clone(),
            attempt: AttemptNumber(sample.attempts.saturating_add(1)),
            history,
            started_at,
            ended_at,
            worker: expired.owner.clone(),
            keep_until: None,
            completion,
        }))
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
    Err(final_failure(TOO_LARGE, &message))
}

#[async_trait]
impl Work for StageWork {
    type Unit = ClaimedSample;
    type Outcome = Outcome;
    type Finish = SampleFinish;

    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> WorkerLimits {
        self.stage.limits.within(self.stage.handler.capacity())
    }

    fn leases(&self) -> &dyn UnitLeases {
        &self.leases
    }

    async fn claim(&self, limit: u32, until: Timestamp) -> Result<Vec<ClaimedSample>> {
        let claim = SampleClaim {
            gates: self.gates.rules(&*self.context.store, self.context.clock.now()).await?,
            gate_key: self.stage.gate_key.clone(),
            served: self.served.clone(),
            stage: self.place,
            limit,
            owner: self.context.worker.clone(),
            lease_until: until,
            now: self.context.clock.now(),
        };
        let mut claimed = self.context.store.claim_samples(&claim).await?;
        if !self.gates.are_open() {
            for sample in &mut claimed {
                sample.pass.key.get_or_insert_with(|| self.key_of(&sample.data));
            }
            let keys: Vec<String> = claimed.iter().map(|it| it.gate_key().to_owned()).collect();
            let keys = keys.iter().map(String::as_str);
            self.gates.note(&*self.context.store, keys.clone()).await;
            claimed.iter_mut().for_each(|sample| sample.history.is_probe = sample.pass.is_probe);
            let histories = keys.zip(claimed.iter_mut().map(|sample| &mut sample.history));
            self.gates.note_closed_time(&self.context, &self.stage.policy, histories).await;
        }
        Ok(claimed)
    }

    fn start(&self, sample: &ClaimedSample, claimed_at: Instant) -> Start {
        self.gates.start(&sample.pass, sample.gate_key(), claimed_at)
    }

    fn gate_changes(&self) -> Option<watch::Receiver<()>> {
        self.gates.changes()
    }

    fn claims_ahead(&self) -> bool {
        self.gates.let_all_through(self.context.clock.now())
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

    fn complete(
        &self,
        sample: &ClaimedSample,
        outcome: Outcome,
        started_at: Timestamp,
        ended_at: Timestamp,
    ) -> Completion<SampleFinish> {
        let (id, history) = (sample.id, sample.history);
        let Some(completion) = self.completion(id, history, outcome, started_at, ended_at) else {
            return Completion::Release;
        };
        let key = sample.gate_key();
        if let SampleCompletion::Failed { failure, .. } = &completion {
            self.gates.failed(key, failure);
        }
        Completion::Finish(SampleFinish {
            gates: self.gates.passed(key),
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
            worker: self.context.worker.clone(),
            keep_until: self.keep_until(self.lease(sample), &completion),
            completion,
        })
    }

    fn finish_lease(&self, finish: &SampleFinish) -> LeaseRef {
        LeaseRef { id: finish.id.0, epoch: finish.epoch }
    }

    async fn finish(&self, ends: &[SampleFinish]) -> Result<Vec<Written>> {
        let Some(next) = &self.next else {
            return self.context.store.finish_samples(ends).await.map(all);
        };
        match (next.finish(&*self.context.store, ends).await, ends) {
            // The store refused the result for good, so its reserved slot is freed.
            (Err(refusal), [end]) if !refusal.is_transient() => {
                next.forget(end);
                Err(refusal)
            }
            (written, _) => written.map(all),
        }
    }

    async fn was_written(&self, finish: &SampleFinish) -> Result<bool> {
        self.context.has_attempt(&finish.ledger_row()).await
    }

    fn log_finish(&self, finish: &SampleFinish, written: Written) {
        log_end(&self.served.pipeline, finish, written);
    }

    fn logs(&self) -> Option<&Arc<WorkLogs>> {
        Some(&self.logs)
    }

    fn traces(&self) -> Option<&Traces> {
        Some(&self.context.traces)
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

    async fn complete_lost(&self, expired: &[ExpiredLease]) -> Result<Vec<SampleFinish>> {
        let ids: Vec<SampleId> = expired.iter().map(|expired| SampleId(expired.lease.id)).collect();
        let samples = self.context.store.samples_by_id(&ids).await?;
        // Runs with other stages may have a stage of this name at another position.
        let ours = samples.iter().filter(|sample| {
            let here = sample.stage == self.place && sample.stage_name == self.stage.name;
            here && sample.pipeline == self.served.pipeline
        });
        let mut finishes = Vec::new();
        for sample in ours.filter(|sample| sample.lease_owner.is_some()) {
            let lease = LeaseRef { id: sample.id.0, epoch: sample.lease_epoch };
            if let Some(expired) = expired.iter().find(|expired| expired.lease == lease) {
                finishes.extend(self.finish_of_lost(sample, expired).await?);
            }
        }
        Ok(finishes)
    }

    fn counts(&self) -> Option<&PlaceCounts> {
        Some(&self.counts)
    }

    fn count(&self, finish: &SampleFinish) {
        self.counts.add(finish.attempt_end());
    }

    fn restarts(&self) -> u64 {
        self.stage.handler.restarts()
    }

    async fn backlog(&self) -> Result<Backlog> {
        let all = self.context.store.pipeline_backlog(&self.served).await?;
        Ok(backlog_of_one(all, self.next_due().await?))
    }

    async fn next_due(&self) -> Result<Option<Timestamp>> {
        let due = self.context.store.next_sample_due(&self.served, self.place).await?;
        let waits = self.gates.gives_start_times()
            && self.context.store.pipeline_backlog(&self.served).await?.ready;
        Ok(self.gates.next_due(due, waits, self.context.clock.now()))
    }
}

/// The backlog of one loop of a pipeline. Work of the other loops may still lead to work here, so it counts as held. Their
/// due times are left out: a sample that is due at a stage without free slots would make all other loops poll constantly.
pub(super) fn backlog_of_one(all: Backlog, next_due: Option<Timestamp>) -> Backlog {
    Backlog { held: all.held || all.next_due.is_some(), next_due, ..all }
}

/// Logs how an attempt ended, after that is written.
fn log_end(pipeline: &str, end: &SampleFinish, written: Written) {
    let (pipeline_run, stage) = (end.run.0, end.stage_name.as_str());
    let (sample, attempt) = (end.id.0, end.attempt.0);
    // An event about the sample, with the given fields and message.
    macro_rules! event {
        ($level:ident, $($rest:tt)+) => {
            tracing::$level!(pipeline, pipeline_run, stage, sample, attempt, $($rest)+)
        };
    }
    if written == Written::Stale {
        event!(warn, epoch = end.epoch.0, "the store refused a late result");
        return;
    }
    match &end.completion {
        SampleCompletion::Answered(_) if (end.history.counted, end.history.deferrals) != (0, 0) => {
            event!(info, "succeeded after retries");
        }
        SampleCompletion::Answered(_) => event!(debug, "succeeded"),
        SampleCompletion::Skipped(why) => event!(debug, why, "skipped"),
        SampleCompletion::Failed { failure, decision } => {
            let (class, code) = (failure.class().name(), failure.code().to_string());
            let error = failure.message().as_str();
            match decision {
                Decision::RetryAt { delay, .. } => {
                    let next_delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                    let delay = HumanDuration::from(*delay);
                    event!(info, class, code, error, next_delay_ms, "retry in {delay}");
                }
                Decision::GiveUp { reason } => {
                    event!(warn, class, code, error, "dead: {reason}");
                }
            }
        }
    }
}
