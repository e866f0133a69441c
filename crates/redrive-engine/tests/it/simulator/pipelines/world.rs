//! One world: a store, workers that come and go, operators, trouble, and then calm.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use redrive_core::{JitterSeed, PipelineRunId, PipelineStatus, SampleId, SampleStatus};
use redrive_engine::{Clock, Engine, Handler, Pipeline, Stopper, Until, checker::check};
use redrive_sqlite::Location;
use redrive_store::{
    AttemptRecord, LedgerPlace, Operator, PipelineRunRecord, PipelineWish, SampleFilter,
    SampleRecord, Store, UnitKind, WorkerId,
};
use tempfile::TempDir;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
};

use super::{
    super::{
        bells::Bells,
        chance::Chance,
        clock::SimClock,
        faulty_store::FaultyStore,
        gate::Gate,
        log::{Event, Log, What},
        mutants::{Mutant, Rule},
        weather::{Conditions, LONGEST_TROUBLE, Weather},
        world::open,
    },
    cast::{Actor, Source},
    news::SampleNews,
    plan::Plan,
};

/// Who sees to it that a world comes to its end.
const WORLD: &str = "world";

/// How long nothing may happen in the calm while something is left to do.
const STUCK: Duration = Duration::from_secs(1_800);

/// A world that has come to its end.
pub(super) struct Lived {
    pub(super) seed: u64,
    pub(super) plan: Plan,
    pub(super) events: Vec<Event>,
    pub(super) runs: Vec<PipelineRunRecord>,
    pub(super) samples: Vec<SampleRecord>,
    pub(super) attempts: Vec<AttemptRecord>,
    pub(super) problems: Vec<String>,
}

/// Lets the world of a seed live, with a store that breaks a rule if one is given.
pub(super) fn live(seed: u64, broken: Option<Rule>) -> Lived {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let mut world = World::new(seed, broken).await;
        for _ in 0..world.plan.workers {
            world.start_worker(Until::Stopped);
        }
        world.rough().await;
        world.check("before the calm").await;
        world.calm().await;
        world.check("at the end").await;
        world.end().await
    })
}

struct Worker {
    gate: Arc<Gate>,
    weather: Arc<Weather>,
    stopper: Stopper,
    task: JoinHandle<()>,
    until: Until,
}

struct World {
    seed: u64,
    plan: Plan,
    chance: Chance,
    clock: Arc<SimClock>,
    log: Arc<Log>,
    bells: Arc<Bells>,
    store: Arc<dyn Store>,
    mutant: Option<Arc<Mutant>>,
    /// The store as operators reach it.
    desk: Arc<FaultyStore>,
    breaks: Arc<AtomicBool>,
    runs: Vec<PipelineRunId>,
    errands: JoinSet<()>,
    workers: BTreeMap<String, Worker>,
    deaths: (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>),
    problems: Vec<String>,
    _folder: Option<TempDir>,
}

impl World {
    async fn new(seed: u64, broken: Option<Rule>) -> Self {
        let mut chance = Chance::new(seed);
        let plan = Plan::new(&mut chance);
        let clock = Arc::new(SimClock::new());
        let log = Arc::new(Log::new(clock.clone()));
        let folder =
            broken.and_then(|rule| rule.needs_file().then(|| tempfile::tempdir().unwrap()));
        let location = match &folder {
            Some(folder) => Location::File(folder.path().join("store.db")),
            None => Location::Memory,
        };
        let mutant = broken.map(|rule| Arc::new(Mutant::new(rule, &location)));
        let store: Arc<dyn Store> = Arc::new(open(location, &clock));
        if let Some(mutant) = &mutant {
            mutant.prepare();
        }
        let bells = Arc::new(Bells::default());
        tokio::spawn(bells.clone().ring(store.clone()));
        let desk = Arc::new(FaultyStore {
            inner: store.clone(),
            who: "operator".to_owned(),
            gate: Arc::new(Gate::new()),
            weather: Arc::default(),
            chance: chance.fork().into(),
            log: log.clone(),
            mutant: None,
            bells: bells.clone(),
            deaf: true,
        });
        let breaks = Arc::new(AtomicBool::new(plan.troubles.weather));
        let mut world = Self {
            seed,
            plan,
            chance,
            clock,
            log,
            bells,
            store,
            mutant,
            desk,
            breaks,
            runs: Vec::new(),
            errands: JoinSet::new(),
            workers: BTreeMap::new(),
            deaths: mpsc::unbounded_channel(),
            problems: Vec::new(),
            _folder: folder,
        };
        for _ in 0..world.plan.runs {
            let run = world.pipeline("nobody", &Arc::new(Gate::new())).new_run();
            let id = world.store.start_pipeline_run(&run, &world.by(WORLD)).await.unwrap();
            world.runs.push(id);
        }
        world
    }

    fn by(&self, who: &str) -> Operator {
        Operator { actor: who.to_owned(), at: self.clock.now(), reason: None }
    }

    /// The pipeline as a worker has it.
    fn pipeline(&mut self, worker: &str, gate: &Arc<Gate>) -> Pipeline {
        let source = Source {
            seed: self.seed,
            lines: self.plan.lines,
            gate: gate.clone(),
            chance: self.chance.fork().into(),
            breaks: self.breaks.clone(),
        };
        let actor: Arc<dyn Handler> = Arc::new(Actor {
            seed: self.seed,
            plan: self.plan.clone(),
            worker: worker.to_owned(),
            gate: gate.clone(),
            log: self.log.clone(),
            truth: self.store.clone(),
            running: Default::default(),
            deaths: self.deaths.0.clone(),
        });
        self.plan.pipeline(Arc::new(source), &actor)
    }

    fn start_worker(&mut self, until: Until) {
        let id = format!("w-{:016x}", self.chance.next());
        let (gate, weather) = (Arc::new(Gate::new()), Arc::new(Weather::default()));
        let store = FaultyStore {
            inner: self.store.clone(),
            who: id.clone(),
            gate: gate.clone(),
            weather: weather.clone(),
            chance: self.chance.fork().into(),
            log: self.log.clone(),
            mutant: self.mutant.clone(),
            bells: self.bells.clone(),
            deaf: self.chance.one_in(4),
        };
        let pipeline = self.pipeline(&id, &gate);
        let engine = Engine::new(Arc::new(store))
            .with_clock(self.clock.clone())
            .with_jitter_seed(JitterSeed(self.plan.jitter_seed))
            .with_pipeline(pipeline);
        self.log.add(&id, What::Started);
        let (stopper, stop) = Stopper::new();
        let (log, name) = (self.log.clone(), id.clone());
        let task = tokio::spawn(async move {
            engine.run_as(WorkerId(name.clone()), stop, until).await;
            log.add(&name, What::Gone);
        });
        self.workers.insert(id, Worker { gate, weather, stopper, task, until });
    }

    /// Things happen, more or less bad ones.
    async fn rough(&mut self) {
        while self.clock.elapsed() < self.plan.rough {
            let pause = self.chance.millis(10, 800);
            tokio::select! {
                biased;
                Some(worker) = self.deaths.1.recv() => self.crash(&worker),
                () = tokio::time::sleep(pause) => self.step(),
            }
        }
    }

    fn step(&mut self) {
        let troubles = self.plan.troubles;
        match self.chance.between(0, 99) {
            // Whatever stopped a run, somebody has it go on before long.
            0..=19 => self.meddle(true),
            20..=39 if troubles.operators => self.meddle(false),
            45..=49 if troubles.crashes => self.pick_worker(|world, worker| world.crash(worker)),
            50..=57 if troubles.freezes => self.pick_worker(|world, worker| world.freeze(worker)),
            58..=61 if troubles.restarts => self.pick_worker(|world, worker| world.stop(worker)),
            62..=74 if (self.workers.len() as u64) < self.plan.workers => {
                self.start_worker(Until::Stopped);
            }
            75..=79 if troubles.jumps => self.jump(),
            80..=94 if troubles.weather => self.change_weather(),
            _ => {}
        }
        self.workers.retain(|_, worker| !worker.task.is_finished());
    }

    /// Does one thing that operators do.
    fn meddle(&mut self, kind: bool) {
        let (desk, by, rules) = (self.desk.clone(), self.by("operator"), self.plan.rules.clone());
        let run = *self.chance.pick(&self.runs);
        let mut chance = self.chance.fork();
        self.errands.spawn(async move {
            let store: &dyn Store = &*desk;
            // An operator who hears nothing leaves it at that.
            match chance.between(if kind { 4 } else { 0 }, 5) {
                0 => _ = store.change_pipeline_run(run, &PipelineWish::Cancel, &by).await,
                1..=3 => {
                    let status = Some(SampleStatus::Dlq);
                    let filter = SampleFilter { status, ..SampleFilter::default() };
                    let dead = store.samples_page(&filter, SampleId(0), 10).await;
                    let ids = dead.unwrap_or_default().into_iter().map(|sample| sample.id);
                    let some: Vec<SampleId> = ids.filter(|_| chance.one_in(2)).collect();
                    _ = store.reprocess_samples(&some, &by).await;
                }
                _ => _ = store.change_pipeline_run(run, &PipelineWish::Resume(rules), &by).await,
            }
        });
    }

    fn pick_worker(&mut self, then: impl FnOnce(&mut Self, &str)) {
        let ids: Vec<String> = self.workers.keys().cloned().collect();
        if !ids.is_empty() {
            let id = self.chance.pick(&ids).clone();
            then(self, &id);
        }
    }

    /// A worker dies in the middle of whatever it does.
    fn crash(&mut self, id: &str) {
        if let Some(worker) = self.workers.remove(id) {
            self.log.add(id, What::Crashed);
            worker.gate.kill();
            worker.task.abort();
        }
    }

    /// A worker stands still for a time, often for longer than its leases.
    fn freeze(&mut self, id: &str) {
        let lease = self.chance.pick(&self.plan.stages).pace.lease.as_millis() as u64;
        let time = self.chance.millis(lease / 4, lease * 3).min(LONGEST_TROUBLE);
        let (gate, log, id) = (self.workers[id].gate.clone(), self.log.clone(), id.to_owned());
        log.add(&id, What::Froze);
        gate.freeze();
        self.errands.spawn(async move {
            tokio::time::sleep(time).await;
            log.add(&id, What::Thawed);
            gate.thaw();
        });
    }

    fn stop(&mut self, id: &str) {
        self.log.add(id, What::Stopping);
        self.workers[id].stopper.stop();
    }

    fn jump(&mut self) {
        let hour = SignedDuration::from_hours(1);
        let years = SignedDuration::from_hours(10 * 365 * 24);
        let by = *self.chance.pick(&[hour, hour, -hour, -hour, years, -years]);
        self.set_clock(by);
    }

    fn set_clock(&mut self, by: SignedDuration) {
        self.clock.jump(by);
        self.log.add(WORLD, What::Jumped { seconds: by.as_secs() });
    }

    fn change_weather(&mut self) {
        let conditions = match self.chance.between(0, 9) {
            0..=3 => Conditions::default(),
            4 => Conditions::OUTAGE,
            _ => Conditions::random(&mut self.chance),
        };
        if self.chance.one_in(2) {
            self.desk.weather.set(conditions);
            self.workers.values().for_each(|worker| worker.weather.set(conditions));
        } else {
            self.pick_worker(|world, worker| world.workers[worker].weather.set(conditions));
        }
    }

    /// Faults end, and everything that can finish must.
    async fn calm(&mut self) {
        self.log.add(WORLD, What::Calm);
        self.breaks.store(false, Ordering::SeqCst);
        self.desk.weather.set(Conditions::default());
        self.workers.values().for_each(|worker| worker.weather.set(Conditions::default()));
        while self.errands.join_next().await.is_some() {}
        let (mut known, mut since) = (0, self.clock.elapsed());
        let mut resumed = since;
        loop {
            tokio::select! {
                biased;
                Some(worker) = self.deaths.1.recv() => self.crash(&worker),
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            let gone = |worker: &Worker| worker.task.is_finished();
            let drains = |worker: &&Worker| worker.until == Until::Drained;
            let drained = self.workers.values().filter(drains).any(gone);
            self.workers.retain(|_, worker| !gone(worker));
            let finishing = self.workers.values().any(|worker| drains(&worker));
            if self.resume_all().await {
                resumed = self.clock.elapsed();
            }
            // One that drains sees what goes on, not what was stopped, and takes its time to leave.
            let lately = self.clock.elapsed() < resumed + LONGEST_TROUBLE;
            let left = self.what_is_left().await;
            match (drained, left) {
                (true, Left::Nothing) => return,
                (true, _) if !lately => {
                    self.problems.push(format!("a worker left early: {left:?}"))
                }
                _ if !finishing => self.start_worker(Until::Drained),
                (_, Left::Waiting(due)) => self.wait_until(due),
                // Whoever reads the source may wait for room as well.
                (_, Left::Work(Some(due))) if self.clock.elapsed() > since + LONGEST_TROUBLE => {
                    self.wait_until(due);
                }
                (_, Left::Nothing | Left::Work(_)) => {}
            }
            let ended =
                |event: &Event| matches!(event.what, What::Sample(SampleNews::Ended { .. }));
            let count = self.log.events().iter().filter(|event| ended(event)).count();
            if count > known {
                (known, since) = (count, self.clock.elapsed());
            } else if self.clock.elapsed() > since + STUCK {
                self.problems.push(format!("nothing ends any more: {left:?}"));
                return;
            }
        }
    }

    /// Has everything go on that was stopped, and says whether something was.
    async fn resume_all(&mut self) -> bool {
        let mut any = false;
        for run in self.store.pipeline_runs_by_id(&self.runs).await.unwrap() {
            if matches!(run.progress.status, PipelineStatus::Aborted | PipelineStatus::Cancelled) {
                let wish = PipelineWish::Resume(self.plan.lenient());
                self.store.change_pipeline_run(run.id, &wish, &self.by(WORLD)).await.unwrap();
                any = true;
            }
        }
        any
    }

    async fn what_is_left(&mut self) -> Left {
        let served = self.pipeline("nobody", &Arc::new(Gate::new())).served();
        let outlook = self.store.pipeline_outlook(&served).await.unwrap();
        match outlook.next_due {
            due if outlook.ready || outlook.held => Left::Work(due),
            Some(due) => Left::Waiting(due),
            None => Left::Nothing,
        }
    }

    /// Years pass: nobody has to sit through them.
    fn wait_until(&mut self, due: Timestamp) {
        let wait = due.duration_since(self.clock.now());
        if wait > SignedDuration::from_secs(2) {
            self.set_clock(wait);
        }
    }

    async fn check(&mut self, when: &str) {
        let report = check(&*self.store).await.unwrap();
        self.problems.extend(report.findings.iter().map(|finding| format!("{when}: {finding}")));
    }

    /// Tells the workers that are left to stop, and gathers what there is.
    async fn end(mut self) -> Lived {
        let patience = Duration::from_secs(120) + LONGEST_TROUBLE;
        for (id, worker) in std::mem::take(&mut self.workers) {
            worker.stopper.stop();
            if tokio::time::timeout(patience, worker.task).await.is_err() {
                self.problems.push(format!("{id} does not stop"));
            }
        }
        let (all, start) = (SampleFilter::default(), LedgerPlace::start());
        Lived {
            seed: self.seed,
            events: self.log.events(),
            runs: self.store.pipeline_runs_by_id(&self.runs).await.unwrap(),
            samples: self.store.samples_page(&all, SampleId(0), 10_000).await.unwrap(),
            attempts: self.store.ledger_page(UnitKind::Sample, &start, 100_000).await.unwrap(),
            plan: self.plan,
            problems: self.problems,
        }
    }
}

/// What the runs still have to do.
#[derive(Debug, Clone, Copy)]
enum Left {
    Nothing,
    Waiting(Timestamp),
    /// Now, and perhaps something that waits.
    Work(Option<Timestamp>),
}
