//! One world of partitions: trouble, and then calm.

use std::{sync::Arc, time::Duration};

use redrive_engine::{Engine, Until};
use redrive_store::WorkerId;

use super::{ending::Lived, operators::DAEMON, plan::Plan, sources::Sources};
use crate::simulator::{
    chance::Chance,
    ground::{Ground, Left, STUCK, Trouble, in_virtual_time},
    mutants::Rule,
    weather::LONGEST_TROUBLE,
};

struct World {
    ground: Ground,
    sources: Sources,
}

/// Lets the world of a seed live, with a store that breaks a rule if one is given.
pub(crate) fn live(seed: u64, broken: Option<Rule>) -> Lived {
    in_virtual_time(async {
        let mut world = World::new(seed, broken);
        world.rough().await;
        world.check("before the calm").await;
        world.calm().await;
        world.check("at the end").await;
        world.end().await
    })
}

impl World {
    fn new(seed: u64, broken: Option<Rule>) -> Self {
        let mut chance = Chance::new(seed);
        let sources = Sources::new(seed, Plan::new(&mut chance));
        Self { ground: Ground::new(chance, broken), sources }
    }

    /// Things happen, more or less bad ones.
    async fn rough(&mut self) {
        self.sources.meddle(&mut self.ground);
        while self.ground.clock.elapsed() < self.sources.plan.rough {
            let pause = self.ground.chance.millis(10, 800);
            if self.ground.pass(pause).await {
                self.step();
            }
        }
    }

    fn step(&mut self) {
        let troubles = self.sources.plan.troubles;
        let trouble = match self.ground.chance.between(0, 99) {
            0..=29 => {
                self.sources.meddle(&mut self.ground);
                None
            }
            30..=39 => {
                self.sources.consume(&mut self.ground);
                None
            }
            40..=46 => Some(Trouble::Crash),
            47..=55 => Some(Trouble::Freeze),
            56..=60 => Some(Trouble::Restart),
            61..=74 => {
                self.start_missing();
                None
            }
            75..=78 => Some(Trouble::Jump),
            79..=94 => Some(Trouble::Weather),
            _ => None,
        };
        if let Some(trouble) = trouble {
            let sources = &self.sources;
            self.ground.suffer(trouble, troubles, |chance| sources.some_lease(chance));
        }
        self.ground.count_heads();
    }

    /// Workers or daemons that are gone come back under other names.
    fn start_missing(&mut self) {
        let is_worker = |id: &&String| !id.starts_with(DAEMON);
        let workers = self.ground.processes.keys().filter(is_worker).count() as u64;
        if workers < self.sources.plan.workers {
            self.start_worker();
        }
        _ = self.sources.start_missing_daemon(&mut self.ground);
    }

    fn start_worker(&mut self) {
        let ground = &mut self.ground;
        let who = ground.newcomer("w-");
        let deaf = ground.chance.one_in(4);
        let mut store = ground.way(&who);
        store.deaf = deaf;
        let engine = Engine::new(Arc::new(store)).with_clock(ground.clock.clone());
        let engine = self.sources.served_by(&who, engine, ground);
        let worker = WorkerId(who.id.clone());
        ground.start(who, Until::Stopped, |stop| async move {
            engine.run_as(worker, stop, Until::Stopped).await;
        });
    }

    /// Faults end, and everything that can come to its end must.
    async fn calm(&mut self) {
        self.ground.calm_down();
        self.ground.errands_done().await;
        self.sources.resume_all(&mut self.ground).await;
        let (mut judged, mut since) = (0, self.ground.clock.elapsed());
        loop {
            self.ground.count_heads();
            self.start_missing();
            self.ground.pass(Duration::from_secs(1)).await;
            match self.sources.what_is_left(&self.ground).await {
                Left::Nothing => return,
                Left::Waiting(due) => self.ground.wait_until(due),
                Left::Work(_) => {}
            }
            let (count, now) = (self.ground.log.verdicts(), self.ground.clock.elapsed());
            if count > judged {
                (judged, since) = (count, now);
            } else if now > since + STUCK {
                self.ground.problems.push("nothing is judged any more".to_owned());
                return;
            }
        }
    }

    async fn check(&mut self, when: &str) {
        self.ground.check(when).await;
        self.sources.check(&mut self.ground, when).await;
    }

    /// Stops what is left, and gathers what there is.
    async fn end(mut self) -> Lived {
        self.ground.stop_all(LONGEST_TROUBLE * 2).await;
        self.sources.look_again(&mut self.ground).await;
        let problems = std::mem::take(&mut self.ground.problems);
        self.sources.lived(&self.ground, problems).await
    }
}
