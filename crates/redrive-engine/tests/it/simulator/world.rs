//! One world of runs: a store, workers that come and go, clients, trouble, and then calm.

use std::{sync::Arc, time::Duration};

use redrive_core::JitterSeed;
use redrive_engine::{Engine, Until};
use redrive_store::{GateRules, WorkerId};

use super::{
    chance::Chance,
    gates,
    ground::{Ground, Left, Process, STUCK, Trouble, in_virtual_time},
    lived::Lived,
    mutants::Rule,
    plan::Plan,
    queues::Queues,
    weather::LONGEST_TROUBLE,
};

/// Lets the world of a seed live, with a store that breaks a rule if one is given.
pub(crate) fn live(seed: u64, broken: Option<Rule>) -> Lived {
    live_in(seed, broken, GateRules::default())
}

/// The same behind gates.
pub(crate) fn live_behind_gates(seed: u64, broken: Option<Rule>) -> Lived {
    live_in(seed, broken, gates::rules(seed))
}

fn live_in(seed: u64, broken: Option<Rule>, gates: GateRules) -> Lived {
    in_virtual_time(async {
        let mut world = World::new(seed, broken, &gates);
        for _ in 0..world.queues.plan.workers {
            world.start_worker(Until::Stopped);
        }
        world.rough().await;
        world.ground.check("before the calm").await;
        world.calm().await;
        world.ground.check("at the end").await;
        world.end().await
    })
}

struct World {
    ground: Ground,
    queues: Queues,
}

impl World {
    fn new(seed: u64, broken: Option<Rule>, gates: &GateRules) -> Self {
        let mut chance = Chance::new(seed);
        let mut plan = Plan::new(&mut chance);
        plan.queues.iter_mut().for_each(|queue| queue.gates = gates.clone());
        if !gates.is_empty() {
            // Each refusal may stop all of them for a minute.
            plan.submissions = plan.submissions.min(30);
        }
        let mut ground = Ground::new(chance, broken);
        let queues = Queues::new(seed, plan, &mut ground);
        Self { ground, queues }
    }

    /// Things happen, more or less bad ones.
    async fn rough(&mut self) {
        while self.ground.clock.elapsed() < self.queues.plan.rough {
            let pause = self.ground.chance.millis(10, 800);
            if self.ground.pass(pause).await {
                self.step();
            }
        }
    }

    fn step(&mut self) {
        let troubles = self.queues.plan.troubles;
        let trouble = match self.ground.chance.between(0, 99) {
            0..=34 => {
                self.queues.submit(&mut self.ground);
                None
            }
            35..=44 if troubles.operators => {
                self.queues.meddle(&mut self.ground);
                None
            }
            45..=49 => Some(Trouble::Crash),
            50..=57 => Some(Trouble::Freeze),
            58..=61 => Some(Trouble::Restart),
            62..=74 if (self.ground.processes.len() as u64) < self.queues.plan.workers => {
                self.start_worker(Until::Stopped);
                None
            }
            75..=79 => Some(Trouble::Jump),
            80..=94 => Some(Trouble::Weather),
            _ => None,
        };
        if let Some(trouble) = trouble {
            let queues = &self.queues;
            self.ground.suffer(trouble, troubles, |chance| queues.some_lease(chance));
        }
        self.ground.count_heads();
    }

    fn start_worker(&mut self, until: Until) {
        let ground = &mut self.ground;
        let who = ground.newcomer("w-");
        let deaf = ground.chance.one_in(4);
        let mut store = ground.way(&who);
        store.deaf = deaf;
        let engine = Engine::new(Arc::new(store))
            .with_clock(ground.clock.clone())
            .with_jitter_seed(JitterSeed(self.queues.plan.jitter_seed));
        // Who is to finish everything serves everything.
        let engine = self.queues.served_by(&who, engine, until == Until::Drained, ground);
        let worker = WorkerId(who.id.clone());
        ground.start(who, until, |stop| async move {
            engine.run_as(worker, stop, until).await;
        });
    }

    /// Faults end, and everything that can finish must.
    async fn calm(&mut self) {
        self.ground.calm_down();
        self.queues.submit_the_rest(&mut self.ground);
        self.ground.errands_done().await;
        self.queues.resume_all(&self.ground).await;
        let (mut ended, mut since) = (0, self.ground.clock.elapsed());
        loop {
            self.ground.pass(Duration::from_secs(1)).await;
            let drains = |process: &&Process| process.until == Until::Drained;
            let gone = |process: &Process| process.task.is_finished();
            let drained = self.ground.processes.values().filter(drains).any(gone);
            self.ground.count_heads();
            let finishing = self.ground.processes.values().any(|process| drains(&process));
            let left = self.queues.what_is_left(&self.ground).await;
            match (drained, left) {
                (true, Left::Nothing) => return,
                (true, _) => self.ground.problems.push(format!("a worker left early: {left:?}")),
                (false, _) if !finishing => self.start_worker(Until::Drained),
                (false, Left::Waiting(due)) => self.ground.wait_until(due),
                (false, _) => {}
            }
            let (count, now) = (self.ground.log.endings(), self.ground.clock.elapsed());
            if count > ended {
                (ended, since) = (count, now);
            } else if now > since + STUCK {
                self.ground.problems.push(format!("nothing ends any more: {left:?}"));
                return;
            }
        }
    }

    /// Tells the workers that are left to stop, and gathers what there is.
    async fn end(mut self) -> Lived {
        self.ground.stop_all(self.queues.patience() + LONGEST_TROUBLE).await;
        let problems = std::mem::take(&mut self.ground.problems);
        self.queues.lived(&self.ground, problems).await
    }
}
