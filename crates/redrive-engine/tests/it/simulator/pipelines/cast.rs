//! Who acts in a world: the source, and the stages of one worker.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use redrive_core::{Code, Failure, SampleId, Unit};
use redrive_engine::{
    Call, Handler, Outcome, SampleSource, SampleWriter, SourceCall, SourceEnd, Stop,
};
use redrive_store::Store;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    super::{
        chance::Chance,
        gate::Gate,
        log::{How, Log, What},
        script::failure,
    },
    news::SampleNews,
    plan::{Line, Plan},
};

/// From this attempt on every stage answers, so that a policy without limits comes to an end.
const PATIENCE: u32 = 12;

/// The source as one worker reads it: line by line, slowly at times, until something gives way.
pub(super) struct SimulatedSource {
    pub(super) seed: u64,
    pub(super) lines: u64,
    pub(super) gate: Arc<Gate>,
    pub(super) chance: Mutex<Chance>,
    /// Whether it breaks now and then.
    pub(super) breaks: Arc<AtomicBool>,
}

#[async_trait]
impl SampleSource for SimulatedSource {
    fn describe(&self) -> String {
        "lines".to_owned()
    }

    async fn read(
        &self,
        call: &SourceCall,
        writer: &mut SampleWriter,
        mut stop: Stop,
    ) -> SourceEnd {
        for number in 1..=self.lines {
            let line = Line::of(self.seed, number).text(number);
            if writer.lines() < call.position.lines {
                writer.skip(line.as_bytes());
                continue;
            }
            let (pause, breaks) = {
                let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
                let slow = chance.one_in(10).then(|| chance.millis(1, 3_000));
                (slow, chance.one_in(150))
            };
            if breaks && self.breaks.load(Ordering::SeqCst) {
                return SourceEnd::Failed(Failure::exit(1, "the source breaks"));
            }
            self.gate.pass().await;
            let wanted = tokio::select! {
                biased;
                () = stop.stopped() => return SourceEnd::Stopped,
                wanted = async {
                    if let Some(pause) = pause {
                        tokio::time::sleep(pause).await;
                        writer.flush().await;
                    }
                    writer.push(line.as_bytes()).await
                } => wanted,
            };
            if !wanted {
                return writer.end();
            }
        }
        writer.finish().await
    }
}

/// What a stage does at an attempt.
enum Act {
    Answer,
    Skip,
    SayNothing,
    Fail(Failure),
    Panic,
    /// Goes on until it is told to stop, or its time is over.
    Endless,
    /// Takes the whole worker down.
    KillWorker,
}

/// The stages of one worker.
pub(super) struct Actor {
    pub(super) seed: u64,
    pub(super) plan: Plan,
    pub(super) worker: String,
    pub(super) gate: Arc<Gate>,
    pub(super) log: Arc<Log>,
    /// The store as it is, whatever the worker may see of it.
    pub(super) truth: Arc<dyn Store>,
    pub(super) running: Mutex<BTreeMap<String, Arc<AtomicUsize>>>,
    pub(super) deaths: mpsc::UnboundedSender<String>,
}

impl Actor {
    fn act(&self, call: &Call, stage: &str, line: u64) -> (Duration, Act) {
        let attempt = call.attempt.0;
        let place = stage.bytes().last().unwrap().into();
        let character = Chance::of(&[self.seed, line, place]).between(0, 19);
        let mut chance = Chance::of(&[self.seed, line, place, attempt.into()]);
        if attempt >= PATIENCE {
            return (Duration::ZERO, Act::Answer);
        }
        let lease = self.plan.stage(stage).limits.lease.as_millis() as u64;
        let takes = match chance.between(if self.plan.long { 14 } else { 0 }, 19) {
            0..=9 => Duration::ZERO,
            10..=15 => chance.millis(1, 300),
            16..=18 => chance.millis(300, 3_000),
            _ => chance.millis(lease / 2, lease * 3),
        };
        let act = match (character, chance.between(0, 9)) {
            (0..=9, _) | (10..=15, 0..=4) => Act::Answer,
            (16, _) => Act::Skip,
            (17, 0..=4) => Act::SayNothing,
            (19, 0) if self.plan.troubles.crashes => Act::KillWorker,
            (18..=19, 1) => Act::Endless,
            _ if chance.one_in(10) => Act::Panic,
            _ => Act::Fail(failure(&mut chance)),
        };
        (takes, act)
    }

    async fn play(&self, act: Act, takes: Duration, call: &Call, stage: &str) -> Outcome {
        tokio::time::sleep(takes).await;
        match act {
            Act::Answer => {
                let mut sample = call.details["data"].clone();
                let trail = sample["trail"].as_array_mut().unwrap();
                trail.push(json!([stage, call.attempt.0]));
                Outcome::Answered { value: Some(sample), verdict: None }
            }
            Act::Skip => Outcome::Skipped("not this one".to_owned()),
            Act::SayNothing => Outcome::Answered { value: None, verdict: None },
            Act::Fail(failure) => Outcome::Failed(failure),
            Act::Panic => {
                Outcome::Failed(Failure::reported(None, Code::name("panic"), "a real one"))
            }
            Act::Endless => std::future::pending().await,
            Act::KillWorker => {
                _ = self.deaths.send(self.worker.clone());
                std::future::pending().await
            }
        }
    }

    async fn begin(&self, call: &Call, stage: &str) -> Execution {
        let Unit::Sample { id: SampleId(sample), .. } = call.unit else {
            panic!("{} is no sample", call.unit)
        };
        let record = self.truth.samples_by_id(&[SampleId(sample)]).await.unwrap().remove(0);
        let owner = record.lease_owner.map(|owner| owner.0);
        let held = owner.as_ref() == Some(&self.worker)
            && record.stage_name == stage
            && record.attempts + 1 == call.attempt.0;
        let running = {
            let mut stages = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            stages.entry(stage.to_owned()).or_default().clone()
        };
        let now_running = running.fetch_add(1, Ordering::SeqCst) + 1;
        // The place of its beginning names the execution.
        let execution = self.log.len();
        let what = SampleNews::Began {
            execution,
            sample,
            stage: stage.to_owned(),
            attempt: call.attempt.0,
            running: now_running,
            held,
        };
        self.log.add(&self.worker, What::Sample(what));
        let (log, worker) = (self.log.clone(), self.worker.clone());
        Execution { execution, worker, log, running, ended: false }
    }
}

#[async_trait]
impl Handler for Actor {
    async fn handle(&self, call: &Call, time_limit: Duration, mut stop: Stop) -> Outcome {
        let stage = call.details["stage"].as_str().unwrap().to_owned();
        let line = call.details["data"]["line"].as_u64().unwrap();
        let (takes, act) = self.act(call, &stage, line);
        let execution = self.begin(call, &stage).await;
        // A frozen worker does not hear that it should stop, while what it waits for may come.
        let told = async {
            stop.stopped().await;
            self.gate.pass().await;
        };
        let outcome = tokio::select! {
            biased;
            () = told => Outcome::Stopped,
            () = tokio::time::sleep(time_limit) => Outcome::Failed(Failure::timeout("too slow")),
            outcome = self.play(act, takes, call, &stage) => outcome,
        };
        // Nor does it notice that it is done.
        self.gate.pass().await;
        execution.end(&outcome);
        if matches!(&outcome, Outcome::Failed(failure) if failure.code().to_string() == "panic") {
            std::panic::resume_unwind(Box::new("as the script says".to_owned()));
        }
        outcome
    }
}

/// An execution under way. However it ends, it is written down.
struct Execution {
    execution: usize,
    worker: String,
    log: Arc<Log>,
    running: Arc<AtomicUsize>,
    ended: bool,
}

impl Execution {
    fn end(mut self, outcome: &Outcome) {
        let how = match outcome {
            Outcome::Answered { value: Some(_), .. } => How::Judged("success"),
            Outcome::Answered { value: None, .. } => How::Failed("bad_reply".to_owned()),
            Outcome::Skipped(_) => How::Judged("skipped"),
            Outcome::Failed(failure) => How::Failed(failure.code().to_string()),
            Outcome::Stopped => How::Stopped,
        };
        self.tell(how);
        self.ended = true;
    }

    fn tell(&self, how: How) {
        let what = SampleNews::Ended { execution: self.execution, how };
        self.log.add(&self.worker, What::Sample(what));
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
        if !self.ended {
            self.tell(How::Dropped);
        }
    }
}

/// Which stages a sample went through, and at which attempt each answered.
pub(super) fn trail(data: &Value) -> Vec<(String, u32)> {
    let step =
        |step: &Value| (step[0].as_str().unwrap().to_owned(), step[1].as_u64().unwrap() as u32);
    data["trail"].as_array().unwrap().iter().map(step).collect()
}
