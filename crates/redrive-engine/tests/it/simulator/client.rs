//! Those who submit runs, and those who meddle with them.

use std::sync::Arc;

use jiff::SignedDuration;
use redrive_core::{RunId, RunStatus};
use redrive_engine::Clock;
use redrive_store::{NewRun, Operator, Runs, Selection};
use serde_json::json;

use super::{
    chance::Chance,
    clock::SimClock,
    faulty_store::FaultyStore,
    log::{Log, What},
    plan::{CATEGORIES, Plan},
};

/// How often a client sends again what it got no answer to.
const MAX_SENDS: u32 = 20;

/// Someone outside, with a way to the store.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) log: Arc<Log>,
}

/// Some runs that are sent in one call.
pub(crate) struct Batch {
    runs: Vec<(u64, NewRun)>,
    /// What goes under the same keys and must be refused.
    others: Vec<(u64, NewRun)>,
    chance: Chance,
}

impl Batch {
    /// The runs of some tokens.
    pub(crate) fn new(
        tokens: impl IntoIterator<Item = u64>,
        plan: &Plan,
        clock: &SimClock,
        chance: &mut Chance,
    ) -> Self {
        let (mut runs, mut others) = (Vec::new(), Vec::new());
        for token in tokens {
            let queue = &chance.pick(&plan.queues).name;
            let category = *chance.pick(&CATEGORIES);
            // Some are told about late, and overtake those who waited less.
            let oldest = if chance.one_in(4) { 100_000 } else { 0 };
            let age = SignedDuration::try_from(chance.millis(0, oldest)).unwrap();
            let submitted_at = clock.now() - age;
            let run = |payload| {
                let run = NewRun::new(queue, &payload, submitted_at).unwrap();
                run.with_category(category).unwrap()
            };
            let mut main = run(json!({ "token": token }));
            if chance.one_in(5) {
                let wait = SignedDuration::try_from(chance.millis(0, 60_000)).unwrap();
                main = main.with_not_before(clock.now() + wait);
            }
            if chance.one_in(3) {
                let key = format!("key-{token}");
                main = main.with_idempotency_key(&key).unwrap();
                let other = run(json!({ "token": token, "other": true }));
                others.push((token, other.with_idempotency_key(&key).unwrap()));
            }
            runs.push((token, main));
        }
        Self { runs, others, chance: chance.fork() }
    }

    /// Whether each may be sent again without doubt.
    fn is_keyed(&self) -> bool {
        self.runs.iter().all(|(_, run)| run.idempotency_key().is_some())
    }
}

impl Client {
    /// Submits a batch, again if there is no answer, and then tries what keys are good for.
    pub(crate) async fn submit(self, mut batch: Batch) {
        let sends = if batch.is_keyed() || batch.chance.one_in(2) { MAX_SENDS } else { 1 };
        let mut told = false;
        for _ in 0..sends {
            told = self.send(&batch.runs).await;
            if told {
                break;
            }
            tokio::time::sleep(batch.chance.millis(100, 5_000)).await;
        }
        if !told || !batch.chance.one_in(2) {
            return;
        }
        tokio::time::sleep(batch.chance.millis(0, 30_000)).await;
        let keyed = |(_, run): &&(u64, NewRun)| run.idempotency_key().is_some();
        let keyed: Vec<_> = batch.runs.iter().filter(keyed).cloned().collect();
        self.send(&keyed).await;
        self.send(&batch.others).await;
    }

    async fn send(&self, runs: &[(u64, NewRun)]) -> bool {
        if runs.is_empty() {
            return true;
        }
        for (token, _) in runs {
            self.log.add(&self.store.who, What::Sent { token: *token });
        }
        let new: Vec<NewRun> = runs.iter().map(|(_, run)| run.clone()).collect();
        let Ok(answers) = self.store.submit_runs(&new, self.clock.now()).await else {
            return false;
        };
        for ((token, _), answer) in runs.iter().zip(answers) {
            self.log.add(&self.store.who, What::Told { token: *token, answer });
        }
        true
    }

    /// Does one thing that operators do.
    pub(crate) async fn meddle(self, queue: String, up_to: u64, mut chance: Chance) {
        let by = Operator {
            actor: "operator".to_owned(),
            at: self.clock.now(),
            reason: Some("curious".to_owned()),
        };
        let ids = self.some_runs(up_to, &mut chance).await;
        // An operator who hears nothing leaves it at that.
        match chance.between(0, 9) {
            0..=2 => _ = self.store.retry_runs(&ids, &by).await,
            3..=4 => _ = self.store.cancel_runs(&ids, &by).await,
            5..=6 => {
                _ = self.store.cancel_runs(&ids, &by).await;
                _ = self.store.retry_runs(&ids, &by).await;
            }
            7 => _ = self.store.pause_queue(&queue, &by).await,
            _ => _ = self.store.resume_queue(&queue, &by).await,
        }
    }

    /// Any runs, or such as are being processed.
    async fn some_runs(&self, up_to: u64, chance: &mut Chance) -> Vec<RunId> {
        let count = chance.between(1, 3);
        if chance.one_in(2) {
            return (0..count).map(|_| RunId(chance.between(1, up_to) as i64)).collect();
        }
        let filter =
            Selection { state: Some(RunStatus::Processing.into()), ..Selection::default() };
        let running = self.store.runs_page(&filter, RunId(0), (count as u32).into()).await;
        running.unwrap_or_default().iter().map(|run| run.id).collect()
    }
}
