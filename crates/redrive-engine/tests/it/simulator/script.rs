//! What handlers do: decided by the seed for each submission and attempt, and counted by themselves.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use redrive_core::{Class, Code, Failure, Unit};
use redrive_engine::{Call, Handler, Outcome, Stop};
use redrive_store::Verdict;
use tokio::sync::mpsc;

use super::{
    attempt_logs,
    chance::Chance,
    gate::Gate,
    log::{How, Log, What},
};

/// From this attempt on every run passes, so that a policy without limits comes to an end.
const PATIENCE: u32 = 12;

/// What a handler does at an attempt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    Judge(Verdict),
    Fail(Failure),
    Panic,
    /// Goes on until it is told to stop, or its time is over.
    Endless,
    /// Takes the whole worker down.
    KillWorker,
}

/// An act and how long it takes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scene {
    pub(crate) takes: Duration,
    pub(crate) act: Act,
}

/// What everybody will do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    /// Whether attempts are often longer than a lease.
    pub(crate) long: bool,
    /// Whether handlers may take their worker down.
    pub(crate) deadly: bool,
}

impl Script {
    pub(crate) fn scene(&self, token: u64, attempt: u32, lease: Duration) -> Scene {
        let character = Chance::of(&[self.seed, token]).between(0, 9);
        let mut chance = Chance::of(&[self.seed, token, attempt.into()]);
        if attempt >= PATIENCE {
            return Scene { takes: Duration::ZERO, act: Act::Judge(Verdict::Passed) };
        }
        let lease = lease.as_millis() as u64;
        let takes = match chance.between(if self.long { 12 } else { 0 }, 19) {
            0..=5 => Duration::ZERO,
            6..=14 => chance.millis(1, 300),
            15..=17 => chance.millis(300, 3_000),
            18 => chance.millis(lease / 2, lease),
            _ => chance.millis(lease, lease * 3),
        };
        let act = match (character, chance.between(0, 9)) {
            (0..=2, _) | (3..=6, 0..=3) => Act::Judge(verdict(&mut chance)),
            (9, 0..=1) if self.deadly => Act::KillWorker,
            (8..=9, 0) => Act::Endless,
            _ if chance.one_in(10) => Act::Panic,
            _ => Act::Fail(failure(&mut chance)),
        };
        Scene { takes, act }
    }
}

fn verdict(chance: &mut Chance) -> Verdict {
    *chance.pick(&[Verdict::Passed, Verdict::Passed, Verdict::NeedsReview, Verdict::Failed])
}

pub(super) fn failure(chance: &mut Chance) -> Failure {
    let limited = |retry_after| Class::RateLimited { retry_after };
    let hint = Some(chance.millis(0, 60_000));
    match chance.between(0, 9) {
        0..=2 => Failure::http(503, None, "busy"),
        3 => Failure::exit(75, "try again"),
        4 => Failure::http(410, None, "gone"),
        5 => Failure::reported(Some(Class::Final), Code::Number(500), "no use"),
        6 => Failure::reported(Some(Class::Retryable), Code::Number(404), "not yet"),
        7 => Failure::http(429, None, "slow down"),
        _ => Failure::reported(Some(limited(hint)), Code::Number(429), "slow down"),
    }
}

/// How a verdict is stored.
pub(crate) fn status_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::NeedsReview => "needs_review",
        Verdict::Failed => "failed",
    }
}

/// How many handlers run now, by queue.
type Running = Mutex<BTreeMap<String, Arc<AtomicUsize>>>;

/// The handler of one worker.
pub(crate) struct Actor {
    pub(crate) script: Script,
    pub(crate) worker: String,
    pub(crate) leases: BTreeMap<String, Duration>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) log: Arc<Log>,
    pub(crate) running: Running,
    pub(crate) deaths: mpsc::UnboundedSender<String>,
}

#[async_trait]
impl Handler for Actor {
    async fn handle(&self, call: &Call, time_limit: Duration, mut stop: Stop) -> Outcome {
        let queue = call.details["queue"].as_str().unwrap().to_owned();
        let token = call.details["payload"]["token"].as_u64().unwrap();
        let scene = self.script.scene(token, call.attempt.0, self.leases[&queue]);
        let execution = self.begin(queue, call);
        call.log.line(&attempt_logs::first_line(call));
        // A frozen worker does not hear that it should stop, while what it waits for may come.
        let told = async {
            stop.stopped().await;
            self.gate.pass().await;
        };
        let outcome = tokio::select! {
            biased;
            () = told => Outcome::Stopped,
            () = tokio::time::sleep(time_limit) => Outcome::Failed(Failure::timeout("too slow")),
            outcome = self.play(scene) => outcome,
        };
        // Nor does it notice that it is done.
        self.gate.pass().await;
        execution.end(&outcome);
        call.log.line(&attempt_logs::last_line(call));
        if matches!(&outcome, Outcome::Failed(failure) if failure.code().to_string() == "panic") {
            std::panic::resume_unwind(Box::new("as the script says".to_owned()));
        }
        outcome
    }
}

impl Actor {
    async fn play(&self, scene: Scene) -> Outcome {
        tokio::time::sleep(scene.takes).await;
        match scene.act {
            Act::Judge(verdict) => {
                Outcome::Answered { value: Some("done".into()), verdict: Some(verdict) }
            }
            Act::Fail(failure) => Outcome::Failed(failure),
            Act::Panic => Outcome::Failed(Failure::reported(
                None,
                Code::name("panic"),
                "replaced by a real panic",
            )),
            Act::Endless => std::future::pending().await,
            Act::KillWorker => {
                _ = self.deaths.send(self.worker.clone());
                std::future::pending().await
            }
        }
    }

    fn begin(&self, queue: String, call: &Call) -> Execution {
        let Unit::Run(run) = &call.unit else { panic!("{} is not a run", call.unit) };
        let running = {
            let mut by_queue = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            by_queue.entry(queue.clone()).or_default().clone()
        };
        let now_running = running.fetch_add(1, Ordering::SeqCst) + 1;
        // The place of its beginning names the execution.
        let execution = self.log.len();
        let what = What::Began {
            execution,
            queue,
            run: run.0,
            attempt: call.attempt.0,
            running: now_running,
        };
        self.log.add(&self.worker, what);
        let (log, worker) = (self.log.clone(), self.worker.clone());
        Execution { execution, worker, log, running, ended: false }
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
            Outcome::Answered { verdict, .. } => How::Judged(status_of(verdict.unwrap())),
            Outcome::Failed(failure) => How::Failed(failure.code().to_string()),
            Outcome::Stopped => How::Stopped,
            Outcome::Skipped(_) => panic!("nobody skips"),
        };
        self.log.add(&self.worker, What::Ended { execution: self.execution, how });
        self.ended = true;
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
        if !self.ended {
            let what = What::Ended { execution: self.execution, how: How::Dropped };
            self.log.add(&self.worker, what);
        }
    }
}
