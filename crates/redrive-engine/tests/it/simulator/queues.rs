//! The queues of a world: who submits runs, who meddles with them, and who works on them.

use std::{sync::Arc, time::Duration};

use redrive_engine::Engine;

use super::{
    chance::Chance,
    client::{Batch, Client},
    ground::{Ground, Identity, Left, WORLD},
    lived::Lived,
    plan::{Plan, QueuePlan},
    script::{Actor, Script},
};

/// All queues.
pub(crate) struct Queues {
    pub(crate) plan: Plan,
    script: Script,
    client: Client,
    submitted: u64,
}

impl Queues {
    pub(crate) fn new(seed: u64, plan: Plan, ground: &mut Ground) -> Self {
        let store = Arc::new(ground.way(&ground.outsider("client")));
        let client = Client { store, clock: ground.clock.clone(), log: ground.log.clone() };
        let script = Script { seed, long: plan.long, deadly: plan.troubles.crashes };
        Self { plan, script, client, submitted: 0 }
    }

    pub(crate) fn submit(&mut self, ground: &mut Ground) {
        let left = self.plan.submissions - self.submitted;
        let count = ground.chance.between(1, 16).min(left);
        if count > 0 {
            let tokens = self.submitted..self.submitted + count;
            self.submitted += count;
            let batch = Batch::new(tokens, &self.plan, &ground.clock, &mut ground.chance);
            let client = self.client.clone();
            ground.errands.spawn(async move {
                client.submit(batch).await;
                Ok(())
            });
        }
    }

    pub(crate) fn meddle(&mut self, ground: &mut Ground) {
        let queue = ground.chance.pick(&self.plan.queues).name.clone();
        let up_to = self.submitted.max(1);
        let (client, chance) = (self.client.clone(), ground.chance.fork());
        ground.errands.spawn(async move {
            client.meddle(queue, up_to, chance).await;
            Ok(())
        });
    }

    /// Has a worker serve them: all, or most of them at least.
    pub(crate) fn served_by(
        &self,
        who: &Identity,
        mut engine: Engine,
        all: bool,
        ground: &mut Ground,
    ) -> Engine {
        let lease = |queue: &QueuePlan| (queue.name.clone(), queue.limits.lease);
        let actor = Arc::new(Actor {
            script: self.script,
            worker: who.id.clone(),
            leases: self.plan.queues.iter().map(lease).collect(),
            gate: who.gate.clone(),
            log: ground.log.clone(),
            running: Default::default(),
            deaths: ground.deaths.0.clone(),
        });
        for queue in &self.plan.queues {
            if all || !ground.chance.one_in(5) {
                engine = engine.with_queue(queue.handled_by(actor.clone()));
            }
        }
        engine
    }

    pub(crate) fn some_lease(&self, chance: &mut Chance) -> Duration {
        chance.pick(&self.plan.queues).limits.lease
    }

    /// Submits what is left to submit.
    pub(crate) fn submit_the_rest(&mut self, ground: &mut Ground) {
        while self.submitted < self.plan.submissions {
            self.submit(ground);
        }
    }

    /// Nothing is paused any more.
    pub(crate) async fn resume_all(&self, ground: &Ground) {
        for queue in &self.plan.queues {
            ground.store.resume_queue(&queue.name, &ground.by(WORLD)).await.unwrap();
        }
    }

    pub(crate) async fn what_is_left(&self, ground: &Ground) -> Left {
        let mut due = None;
        for queue in &self.plan.queues {
            let backlog = ground.store.backlog(&queue.name, &queue.categories).await.unwrap();
            if backlog.ready || backlog.held {
                return Left::Work(None);
            }
            due = due.into_iter().chain(backlog.next_due).min();
        }
        due.map_or(Left::Nothing, Left::Waiting)
    }

    /// How long the slowest worker may take to stop, beside trouble.
    pub(crate) fn patience(&self) -> Duration {
        let slowest = |queue: &QueuePlan| queue.limits.grace * 5 + queue.limits.lease;
        self.plan.queues.iter().map(slowest).max().unwrap()
    }

    /// What is left of them in the end.
    pub(crate) async fn lived(self, ground: &Ground, problems: Vec<String>) -> Lived {
        let (plan, clock) = (self.plan, ground.clock.clone());
        Lived::new(plan, self.script, clock, &ground.log, &*ground.store, problems).await
    }
}
