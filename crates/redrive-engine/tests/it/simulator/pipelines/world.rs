//! One world of pipelines: workers that come and go, operators, trouble, and then calm.

use std::{sync::Arc, time::Duration};

use redrive_core::JitterSeed;
use redrive_engine::{Engine, Until};
use redrive_store::WorkerId;

use super::{
    super::{
        chance::Chance,
        ground::{Ground, Left, Process, STUCK, Trouble, in_virtual_time},
        mutants::Rule,
        weather::LONGEST_TROUBLE,
    },
    plan::Plan,
    stages::Stages,
    verdict::Lived,
};

/// Lets the world of a seed live, with a store that breaks a rule if one is given.
pub(super) fn live(seed: u64, broken: Option<Rule>) -> Lived {
    in_virtual_time(async {
        let mut world = World::new(seed, broken).await;
        for _ in 0..world.stages.plan.workers {
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
    stages: Stages,
}

impl World {
    async fn new(seed: u64, broken: Option<Rule>) -> Self {
        let mut chance = Chance::new(seed);
        let plan = Plan::new(&mut chance);
        let mut ground = Ground::new(chance, broken);
        let stages = Stages::new(seed, plan, &mut ground).await;
        Self { ground, stages }
    }

    fn start_worker(&mut self, until: Until) {
        let ground = &mut self.ground;
        let who = ground.newcomer("w-");
        let mut store = ground.way(&who);
        store.deaf = ground.chance.one_in(4);
        let engine = Engine::new(Arc::new(store))
            .with_clock(ground.clock.clone())
            .with_jitter_seed(JitterSeed(self.stages.plan.jitter_seed));
        let engine = self.stages.served_by(&who, engine, ground);
        let worker = WorkerId(who.id.clone());
        ground.start(who, until, |stop| async move {
            engine.run_as(worker, stop, until).await;
        });
    }

    /// Things happen, more or less bad ones.
    async fn rough(&mut self) {
        while self.ground.clock.elapsed() < self.stages.plan.rough {
            let pause = self.ground.chance.millis(10, 800);
            if self.ground.pass(pause).await {
                self.step();
            }
        }
    }

    fn step(&mut self) {
        let troubles = self.stages.plan.troubles;
        let trouble = match self.ground.chance.between(0, 99) {
            // Whatever stopped a run, somebody has it go on before long.
            0..=19 => {
                self.stages.meddle(true, &mut self.ground);
                None
            }
            20..=39 if troubles.operators => {
                self.stages.meddle(false, &mut self.ground);
                None
            }
            45..=49 => Some(Trouble::Crash),
            50..=57 => Some(Trouble::Freeze),
            58..=61 => Some(Trouble::Restart),
            62..=74 if (self.ground.processes.len() as u64) < self.stages.plan.workers => {
                self.start_worker(Until::Stopped);
                None
            }
            75..=79 => Some(Trouble::Jump),
            80..=94 => Some(Trouble::Weather),
            _ => None,
        };
        if let Some(trouble) = trouble {
            let stages = &self.stages;
            self.ground.suffer(trouble, troubles, |chance| stages.some_lease(chance));
        }
        self.ground.count_heads();
    }

    /// Faults end, and everything that can finish must.
    async fn calm(&mut self) {
        self.ground.calm_down();
        self.stages.calm_down();
        self.ground.errands_done().await;
        let (mut known, mut since) = (0, self.ground.clock.elapsed());
        let mut resumed = since;
        loop {
            self.ground.pass(Duration::from_secs(1)).await;
            let drains = |process: &&Process| process.until == Until::Drained;
            let gone = |process: &Process| process.task.is_finished();
            let drained = self.ground.processes.values().filter(drains).any(gone);
            self.ground.count_heads();
            let finishing = self.ground.processes.values().any(|process| drains(&process));
            if self.stages.resume_all(&self.ground).await {
                resumed = self.ground.clock.elapsed();
            }
            // One that drains sees what goes on, not what was stopped, and takes its time to leave.
            let lately = self.ground.clock.elapsed() < resumed + LONGEST_TROUBLE;
            let left = self.stages.what_is_left(&mut self.ground).await;
            let now = self.ground.clock.elapsed();
            match (drained, left) {
                (true, Left::Nothing) => return,
                (true, _) if !lately => {
                    self.ground.problems.push(format!("a worker left early: {left:?}"))
                }
                _ if !finishing => self.start_worker(Until::Drained),
                (_, Left::Waiting(due)) => self.ground.wait_until(due),
                // Whoever reads the source may wait for room as well.
                (_, Left::Work(Some(due))) if now > since + LONGEST_TROUBLE => {
                    self.ground.wait_until(due);
                }
                (_, Left::Nothing | Left::Work(_)) => {}
            }
            let (count, now) = (self.ground.log.sample_endings(), self.ground.clock.elapsed());
            if count > known {
                (known, since) = (count, now);
            } else if now > since + STUCK {
                self.ground.problems.push(format!("nothing ends any more: {left:?}"));
                return;
            }
        }
    }

    /// Tells the workers that are left to stop, and gathers what there is.
    async fn end(mut self) -> Lived {
        self.ground.stop_all(Duration::from_secs(120) + LONGEST_TROUBLE).await;
        let problems = std::mem::take(&mut self.ground.problems);
        self.stages.lived(&self.ground, problems).await
    }
}
