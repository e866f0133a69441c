//! What extractors and judges do: decided by the seed for each key and attempt.

use std::{hash::Hasher, sync::Arc, time::Duration};

use async_trait::async_trait;
use redrive_core::{Failure, PartitionKey, Unit};
use redrive_engine::ValidationRules;
use redrive_engine::{
    Call, Extractor, Handler, Outcome, RawSink, RowWriter, Source, Stop, ValidationHandler,
};
use redrive_store::Verdict;
use serde_json::json;
use tokio::sync::mpsc;

use super::plan::SourcePlan;
use crate::simulator::{
    chance::Chance,
    gate::Gate,
    log::{Log, What},
};

/// From this attempt on everything is good, so that a policy without limits comes to an end.
const PATIENCE: u32 = 8;

/// What an attempt comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// So many good rows.
    Good(u64),
    /// Rows that the validator's own checks refuse.
    BadRows,
    /// Good rows that the user's judge refuses, in one way or another.
    Refused,
    Unsure,
    /// An error, after some rows.
    Fail,
    Panic,
    /// Goes on until it is told to stop, or its time is over.
    Endless,
    /// Takes the whole worker down.
    KillWorker,
}

/// Who extracts and judges for one worker.
#[derive(Clone)]
pub(crate) struct Actor {
    pub(crate) seed: u64,
    pub(crate) worker: String,
    pub(crate) deadly: bool,
    pub(crate) gate: Arc<Gate>,
    pub(crate) log: Arc<Log>,
    pub(crate) deaths: mpsc::UnboundedSender<String>,
}

impl Actor {
    /// A source, with this actor behind it.
    pub(crate) fn plays(&self, plan: &SourcePlan, sink: &RawSink) -> Source {
        let actor = Arc::new(self.clone());
        let judge = ValidationHandler { handler: actor.clone(), time_limit: plan.time_limit };
        let rules = ValidationRules { handler: Some(judge), ..ValidationRules::default() };
        Source {
            backfill_share: plan.backfill_share,
            time_limit: plan.time_limit,
            limits: plan.limits,
            ..Source::new(&plan.name, actor, sink.clone()).with_rules(rules)
        }
    }

    fn scene(&self, key: &PartitionKey, attempt: u32) -> (Duration, Act) {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(key.to_string().as_bytes());
        let key = hasher.finish();
        let character = Chance::of(&[self.seed, key]).between(0, 9);
        let mut chance = Chance::of(&[self.seed, key, attempt.into()]);
        let takes = match chance.between(0, 9) {
            0..=3 => Duration::ZERO,
            4..=7 => chance.millis(1, 500),
            8 => chance.millis(500, 4_000),
            _ => chance.millis(4_000, 30_000),
        };
        let good = Act::Good(chance.between(0, 3));
        if attempt >= PATIENCE {
            return (Duration::ZERO, good);
        }
        let act = match (character, chance.between(0, 9)) {
            (0..=2, _) | (3..=7, 0..=3) => good,
            (9, 0) if self.deadly => Act::KillWorker,
            (8..=9, 1) => Act::Endless,
            (_, 4) => Act::BadRows,
            (_, 5) => Act::Refused,
            (_, 6) => Act::Unsure,
            (_, 7) => Act::Panic,
            _ => Act::Fail,
        };
        (takes, act)
    }

    fn scene_of(&self, call: &Call) -> (Duration, Act) {
        let Unit::Partition(key) = &call.unit else { panic!("{} is no partition", call.unit) };
        self.scene(key, call.attempt.0)
    }

    async fn play(&self, call: &Call, rows: &RowWriter) -> Outcome {
        let (takes, act) = self.scene_of(call);
        tokio::time::sleep(takes).await;
        // Who is frozen writes nothing meanwhile, and goes on where it was.
        self.gate.pass().await;
        let (lines, bad) = match act {
            Act::Good(lines) => (lines, false),
            Act::BadRows => (1, true),
            Act::Refused | Act::Unsure | Act::Fail | Act::Panic => (2, false),
            Act::Endless | Act::KillWorker => (1, false),
        };
        for line in 0..lines {
            let row = json!({ "run_id": call.run_id, "line": line });
            if let Err(failure) = rows.row(&row).await {
                return Outcome::Failed(failure);
            }
        }
        if bad && let Err(failure) = rows.write(b"[1, 2]\n").await {
            return Outcome::Failed(failure);
        }
        match act {
            Act::Good(_) | Act::BadRows | Act::Refused | Act::Unsure => {
                Outcome::Answered { value: None, verdict: None }
            }
            Act::Fail => Outcome::Failed(Failure::exit(1, "no luck [terminal]")),
            Act::Panic => std::panic::resume_unwind(Box::new("as the script says".to_owned())),
            Act::Endless => std::future::pending().await,
            Act::KillWorker => {
                _ = self.deaths.send(self.worker.clone());
                std::future::pending().await
            }
        }
    }
}

#[async_trait]
impl Extractor for Actor {
    async fn extract(
        &self,
        call: &Call,
        rows: &RowWriter,
        time_limit: Duration,
        mut stop: Stop,
    ) -> Outcome {
        let Unit::Partition(key) = &call.unit else { panic!("{} is no partition", call.unit) };
        let run_id = call.run_id.as_ref().unwrap().parse().unwrap();
        self.log.add(&self.worker, What::Extracting { key: key.clone(), run_id });
        // A frozen worker does not hear that it should stop.
        let told = async {
            stop.stopped().await;
            self.gate.pass().await;
        };
        let outcome = tokio::select! {
            biased;
            () = told => Outcome::Stopped,
            () = tokio::time::sleep(time_limit) => Outcome::Failed(Failure::timeout("too slow")),
            outcome = self.play(call, rows) => outcome,
        };
        self.gate.pass().await;
        outcome
    }
}

#[async_trait]
impl Handler for Actor {
    async fn handle(&self, call: &Call, _: Duration, _: Stop) -> Outcome {
        self.gate.pass().await;
        let verdict = match self.scene_of(call).1 {
            Act::Refused => Verdict::Failed,
            Act::Unsure => Verdict::NeedsReview,
            _ => Verdict::Passed,
        };
        Outcome::Answered { value: Some("[terminal] it was read".into()), verdict: Some(verdict) }
    }
}
