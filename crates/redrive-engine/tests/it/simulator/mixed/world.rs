//! One world of everything: trouble, and then calm.

use std::{sync::Arc, time::Duration};

use redrive_core::JitterSeed;
use redrive_engine::{Engine, Until};
use redrive_store::WorkerId;

use crate::simulator::{
    chance::Chance,
    ground::{Ground, Left, STUCK, Trouble, in_virtual_time},
    log::Event,
    mutants::Rule,
    partitions::{self, Sources},
    pipelines::{self, Stages},
    plan::{Plan, Troubles},
    queues::Queues,
    uploads::{self, SimulatedItems, Upload},
    verdict,
    weather::LONGEST_TROUBLE,
};

/// Who serves everything, so that everything can come to its end.
const KEEPER: &str = "keeper-";

/// A world that has lived.
pub(super) struct Lived {
    pub(super) events: Vec<Event>,
    /// Everything that is wrong with it; nothing, if all is well.
    pub(super) problems: Vec<String>,
}

struct World {
    ground: Ground,
    troubles: Troubles,
    queues: Queues,
    sources: Sources,
    stages: Stages,
    items: SimulatedItems,
    uploads: Vec<Upload>,
}

/// Lets the world of a seed live, with a store that breaks a rule if one is given.
pub(super) fn live(seed: u64, broken: Option<Rule>) -> Lived {
    in_virtual_time(async {
        let mut world = World::new(seed, broken).await;
        world.rough().await;
        world.check("before the calm").await;
        world.calm().await;
        world.check("at the end").await;
        world.end().await
    })
}

impl World {
    /// Each kind of work has a plan of its own; all suffer the same troubles.
    async fn new(seed: u64, broken: Option<Rule>) -> Self {
        let mut chance = Chance::new(seed);
        let runs = Plan::new(&mut chance);
        let troubles = runs.troubles;
        let days = partitions::Plan { troubles, ..partitions::Plan::new(&mut chance) };
        let jitter_seed = runs.jitter_seed;
        let mill = pipelines::Plan { troubles, jitter_seed, ..pipelines::Plan::new(&mut chance) };
        let mut ground = Ground::new(chance, broken);
        Self {
            troubles,
            queues: Queues::new(seed, runs, &mut ground),
            sources: Sources::new(seed, days),
            stages: Stages::new(seed, mill, &mut ground).await,
            items: SimulatedItems::new(&mut ground).await,
            uploads: Vec::new(),
            ground,
        }
    }

    /// Things happen, more or less bad ones.
    async fn rough(&mut self) {
        self.sources.meddle(&mut self.ground);
        while self.ground.clock.elapsed() < self.queues.plan.rough {
            let pause = self.ground.chance.millis(10, 500);
            if self.ground.pass(pause).await {
                self.step().await;
            }
        }
    }

    async fn step(&mut self) {
        let (ground, operators) = (&mut self.ground, self.troubles.operators);
        let trouble = match ground.chance.between(0, 99) {
            0..=15 => return self.queues.submit(ground),
            16..=21 if operators => return self.queues.meddle(ground),
            22..=31 => return self.sources.meddle(ground),
            32..=35 => return self.sources.consume(ground),
            // Whatever stopped a run, somebody has it go on before long.
            36..=42 => return self.stages.meddle(true, ground),
            43..=49 if operators => return self.stages.meddle(false, ground),
            50..=53 => return self.uploads.push(self.items.start_upload(ground)),
            54..=58 => return self.trouble_uploads().await,
            59..=63 => Trouble::Crash,
            64..=69 => Trouble::Freeze,
            70..=72 => Trouble::Restart,
            73..=83 => return self.start_missing(),
            84..=87 => Trouble::Jump,
            88..=97 => Trouble::Weather,
            _ => return,
        };
        let (queues, sources, stages) = (&self.queues, &self.sources, &self.stages);
        ground.suffer(trouble, self.troubles, |chance| match chance.between(0, 2) {
            0 => queues.some_lease(chance),
            1 => sources.some_lease(chance),
            _ => stages.some_lease(chance),
        });
    }

    /// One is killed, or the weather changes for all. Why nobody is frozen, their own worlds say.
    async fn trouble_uploads(&mut self) {
        let chance = &mut self.ground.chance;
        if self.troubles.weather && chance.one_in(2) {
            let conditions = uploads::some_weather(chance);
            self.uploads.iter().for_each(|upload| upload.weather.set(conditions));
        } else if self.troubles.crashes && !self.uploads.is_empty() {
            let at = chance.between(0, self.uploads.len() as u64 - 1) as usize;
            self.uploads.swap_remove(at).kill().await;
        }
    }

    /// Workers or daemons that are gone come back under other names.
    fn start_missing(&mut self) {
        self.ground.count_heads();
        let is_worker = |id: &&String| id.starts_with("w-");
        let workers = self.ground.processes.keys().filter(is_worker).count() as u64;
        if workers < self.queues.plan.workers {
            self.start_worker("w-");
        }
        // All of them, or two would seldom look at the same time in a world of so much else.
        while self.sources.start_missing_daemon(&mut self.ground) {}
    }

    fn start_worker(&mut self, prefix: &str) {
        let ground = &mut self.ground;
        let who = ground.newcomer(prefix);
        let mut store = ground.way(&who);
        store.deaf = ground.chance.one_in(4);
        let engine = Engine::new(Arc::new(store))
            .with_clock(ground.clock.clone())
            .with_jitter_seed(JitterSeed(self.queues.plan.jitter_seed));
        let engine = self.queues.served_by(&who, engine, prefix == KEEPER, ground);
        let engine = self.sources.served_by(&who, engine, ground);
        let engine = self.stages.served_by(&who, engine, ground);
        let worker = WorkerId(who.id.clone());
        ground.start(who, Until::Stopped, |stop| async move {
            engine.run_as(worker, stop, Until::Stopped).await;
        });
    }

    /// Faults end, and everything that can come to its end must.
    async fn calm(&mut self) {
        self.ground.calm_down();
        self.stages.calm_down();
        self.queues.submit_the_rest(&mut self.ground);
        self.ground.errands_done().await;
        for upload in std::mem::take(&mut self.uploads) {
            upload.kill().await;
        }
        uploads::calm(&self.items, &mut self.ground).await;
        self.queues.resume_all(&self.ground).await;
        self.sources.resume_all(&mut self.ground).await;
        let (mut ended, mut since) = (0, self.ground.clock.elapsed());
        loop {
            self.start_missing();
            if !self.ground.processes.keys().any(|id| id.starts_with(KEEPER)) {
                self.start_worker(KEEPER);
            }
            self.ground.pass(Duration::from_secs(1)).await;
            self.stages.resume_all(&self.ground).await;
            let left = self.what_is_left().await;
            let now = self.ground.clock.elapsed();
            match left {
                Left::Nothing => return,
                Left::Waiting(due) => self.ground.wait_until(due),
                // What has work may wait for what is due, such as for room.
                Left::Work(Some(due)) if now > since + LONGEST_TROUBLE => {
                    self.ground.wait_until(due);
                }
                Left::Work(_) => {}
            }
            let log = &self.ground.log;
            let count = log.endings() + log.verdicts() + log.sample_endings();
            if count > ended {
                (ended, since) = (count, now);
            } else if now > since + STUCK {
                self.ground.problems.push(format!("nothing ends any more: {left:?}"));
                return;
            }
        }
    }

    async fn what_is_left(&mut self) -> Left {
        let queues = self.queues.what_is_left(&self.ground).await;
        let sources = self.sources.what_is_left(&self.ground).await;
        queues.and(sources).and(self.stages.what_is_left(&mut self.ground).await)
    }

    async fn check(&mut self, when: &str) {
        self.ground.check(when).await;
        self.sources.check(&mut self.ground, when).await;
    }

    /// Stops what is left, and has everything judged.
    async fn end(mut self) -> Lived {
        self.ground.stop_all(Duration::from_secs(120) + LONGEST_TROUBLE).await;
        self.sources.look_again(&mut self.ground).await;
        let mut problems = std::mem::take(&mut self.ground.problems);
        let ground = &self.ground;
        problems.extend(verdict::judge(&self.queues.lived(ground, Vec::new()).await));
        problems.extend(self.sources.lived(ground, Vec::new()).await.judge());
        problems.extend(pipelines::judge(&self.stages.lived(ground, Vec::new()).await));
        problems.extend(self.items.judge(ground).await);
        Lived { events: ground.log.events(), problems }
    }
}
