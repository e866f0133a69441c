//! One world of plans: runs that fail, plans over them, executors that come and go, operators, trouble, and then calm.

use std::{sync::Arc, time::Duration};

use redrive_core::{JitterSeed, PlanId, PlanSettings, PlanStatus, RunId, RunState};
use redrive_engine::{Engine, PlanExecutor, Until};
use redrive_store::{
    Categories, MAX_PAGE, NewPlan, Operator, PlanAction, PlanOrder, PlanUnit, PlannedUnit, Plans,
    Result, RunAction, Runs, Selection, WorkerId,
};

use super::judge::judge;
use crate::simulator::{
    chance::Chance,
    faulty_store::FaultyStore,
    ground::{Ground, Left, STUCK, Trouble, WORLD, in_virtual_time},
    log::Event,
    mutants::Rule,
    plan::Plan,
    queues::Queues,
    weather::LONGEST_TROUBLE,
};

const LEASES: [u64; 3] = [3_000, 5_000, 30_000];
const PACES: [&str; 6] = ["1/s", "3/s", "10/s", "50/s", "60/m", "300/m"];
const SHARES: [&str; 3] = ["20%", "50%", "100%"];

/// Who serves everything, so that everything can come to its end.
const KEEPER: &str = "keeper-";

/// A world that has lived.
pub(super) struct Lived {
    pub(super) events: Vec<Event>,
    /// Everything that is wrong with it; nothing, if all is well.
    pub(super) problems: Vec<String>,
}

/// Lets the world of a seed live, with a store that breaks a rule if one is given.
pub(super) fn live(seed: u64, broken: Option<Rule>) -> Lived {
    in_virtual_time(async {
        let mut world = World::new(seed, broken);
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
    executors: u64,
    lease: Duration,
}

impl World {
    fn new(seed: u64, broken: Option<Rule>) -> Self {
        let mut chance = Chance::new(seed);
        let mut plan = Plan::new(&mut chance);
        // What no worker takes would have to be waited for.
        plan.queues.iter_mut().for_each(|queue| queue.categories = Categories::All);
        plan.submissions = chance.between(10, 80);
        let executors = chance.between(1, 3);
        let lease = Duration::from_millis(*chance.pick(&LEASES));
        let mut ground = Ground::new(chance, broken);
        let queues = Queues::new(seed, plan, &mut ground);
        Self { ground, queues, executors, lease }
    }

    /// Things happen, more or less bad ones.
    async fn rough(&mut self) {
        self.queues.submit_the_rest(&mut self.ground);
        self.start_missing();
        while self.ground.clock.elapsed() < self.queues.plan.rough {
            let pause = self.ground.chance.millis(10, 800);
            if self.ground.pass(pause).await {
                self.step();
            }
        }
    }

    fn step(&mut self) {
        let (ground, troubles) = (&mut self.ground, self.queues.plan.troubles);
        let trouble = match ground.chance.between(0, 99) {
            0..=19 => return self.make_plan(),
            20..=44 => return self.order(),
            45..=49 if troubles.operators => return self.queues.meddle(ground),
            50..=56 => Trouble::Crash,
            57..=66 => Trouble::Freeze,
            67..=70 => Trouble::Restart,
            71..=82 => return self.start_missing(),
            83..=86 => Trouble::Jump,
            87..=96 => Trouble::Weather,
            _ => return,
        };
        let lease = self.lease;
        self.ground.suffer(trouble, troubles, |_| lease);
        self.ground.count_heads();
    }

    /// Somebody plans something for the runs that were given up, or for all.
    fn make_plan(&mut self) {
        let (store, by, mut chance) = self.operator();
        self.ground.errands.spawn(async move {
            let retries = !chance.one_in(6);
            let action = if retries { RunAction::Retry } else { RunAction::Cancel };
            let state = (!chance.one_in(5)).then_some(RunState::GivenUp.into());
            let selection = Selection { state, ..Selection::default() };
            // Who hears nothing leaves it at that; a list that is not complete is never applied.
            let made = make_plan(&store, PlanAction::Run(action), &selection, &by).await;
            if let Ok(plan) = made
                && chance.one_in(2)
            {
                let apply = PlanOrder::Apply(settings(&mut chance));
                _ = store.change_plan(plan, &apply, &by).await;
            }
            Ok(())
        });
    }

    /// Somebody tells a plan what to do.
    fn order(&mut self) {
        let (store, by, mut chance) = self.operator();
        self.ground.errands.spawn(async move {
            let Ok(plans) = store.plans_page(PlanId(i64::MAX), MAX_PAGE).await else {
                return Ok(());
            };
            if plans.is_empty() {
                return Ok(());
            }
            let plan = chance.pick(&plans).id;
            let order = match chance.between(0, 9) {
                0..=4 => PlanOrder::Apply(settings(&mut chance)),
                5 => PlanOrder::Pause,
                6..=7 => PlanOrder::Resume,
                8 => PlanOrder::Abort,
                _ => PlanOrder::Undo,
            };
            _ = store.change_plan(plan, &order, &by).await;
            Ok(())
        });
    }

    fn operator(&mut self) -> (Arc<FaultyStore>, Operator, Chance) {
        let ground = &mut self.ground;
        let who = ground.outsider("operator");
        let by = ground.by(&who.id);
        (Arc::new(ground.way(&who)), by, ground.chance.fork())
    }

    /// Workers or executors that are gone come back under other names.
    fn start_missing(&mut self) {
        self.ground.count_heads();
        let processes = &self.ground.processes;
        let of = |prefix: &str| processes.keys().filter(|id| id.starts_with(prefix)).count() as u64;
        let (workers, executors) = (of("w-"), of("e-"));
        if workers < self.queues.plan.workers {
            self.start_worker("w-");
        }
        if executors < self.executors {
            self.start_executor();
        }
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
        let worker = WorkerId(who.id.clone());
        ground.start(who, Until::Stopped, |stop| async move {
            engine.run_as(worker, stop, Until::Stopped).await;
        });
    }

    fn start_executor(&mut self) {
        let ground = &mut self.ground;
        let who = ground.newcomer("e-");
        let mut store = ground.way(&who);
        store.deaf = ground.chance.one_in(2);
        let executor = PlanExecutor::new(Arc::new(store), WorkerId(who.id.clone()))
            .with_clock(ground.clock.clone())
            .with_lease(self.lease);
        ground.start(who, Until::Stopped, |stop| async move { executor.run(stop).await });
    }

    /// Faults end, and everything that can come to its end must.
    async fn calm(&mut self) {
        self.ground.calm_down();
        self.ground.errands_done().await;
        self.queues.resume_all(&self.ground).await;
        for plan in self.ground.store.plans_page(PlanId(i64::MAX), MAX_PAGE).await.unwrap() {
            if plan.status == PlanStatus::Paused {
                let by = self.ground.by(WORLD);
                self.ground.store.change_plan(plan.id, &PlanOrder::Resume, &by).await.unwrap();
            }
        }
        let (mut events, mut since) = (0, self.ground.clock.elapsed());
        loop {
            self.start_missing();
            if !self.ground.processes.keys().any(|id| id.starts_with(KEEPER)) {
                self.start_worker(KEEPER);
            }
            self.ground.pass(Duration::from_secs(1)).await;
            let left = self.queues.what_is_left(&self.ground).await;
            let plans = self.ground.store.plans_page(PlanId(i64::MAX), MAX_PAGE).await.unwrap();
            let open = plans.iter().filter(|plan| plan.has_work()).count();
            match left {
                Left::Nothing if open == 0 => return,
                Left::Waiting(due) => self.ground.wait_until(due),
                _ => {}
            }
            let (count, now) = (
                self.ground.log.endings() + self.ground.log.plan_news(),
                self.ground.clock.elapsed(),
            );
            if count > events {
                (events, since) = (count, now);
            } else if now > since + STUCK {
                let problem = format!("nothing ends any more: {left:?}, {open} plans");
                self.ground.problems.push(problem);
                return;
            }
        }
    }

    /// Stops what is left, and has everything judged.
    async fn end(mut self) -> Lived {
        self.ground.stop_all(self.queues.patience() + LONGEST_TROUBLE).await;
        let mut problems = std::mem::take(&mut self.ground.problems);
        let events = self.ground.log.events();
        problems.extend(judge(&*self.ground.store, &events).await);
        Lived { events, problems }
    }
}

fn settings(chance: &mut Chance) -> PlanSettings {
    let canary = chance.one_in(2).then(|| chance.between(1, 8));
    let pace = (!chance.one_in(3)).then(|| chance.pick(&PACES).parse().unwrap());
    let ramp = (pace.is_some() && chance.one_in(3)).then(|| chance.millis(1_000, 60_000));
    let abort_if = chance.one_in(2).then(|| chance.pick(&SHARES).parse().unwrap());
    PlanSettings::new(canary, pace, ramp, abort_if).unwrap()
}

/// Lists units as the commands do, in several calls.
async fn make_plan(
    store: &FaultyStore,
    action: PlanAction,
    selection: &Selection,
    by: &Operator,
) -> Result<PlanId> {
    let new = NewPlan {
        action,
        selection: "{}".to_owned(),
        settings: PlanSettings::default(),
        by: by.clone(),
    };
    let plan = store.create_plan(&new).await?;
    let mut after = RunId(0);
    loop {
        let runs = store.runs_page(selection, after, 20.into()).await?;
        let Some(last) = runs.last() else { break };
        after = last.id;
        let planned = |run| PlannedUnit::new(action, &PlanUnit::Run(run));
        let units: Vec<PlannedUnit> = runs.into_iter().map(planned).collect();
        let _ = store.add_plan_units(plan, &units).await?;
    }
    let _ = store.freeze_plan(plan, by.at).await?;
    Ok(plan)
}
