//! One world of partitions: trouble, and then calm.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use object_store::memory::InMemory;
use redrive_core::{PartitionStatus, Prospect};
use redrive_engine::{
    Clock, Engine, PartitionRules, RawSink, Stop, Stopper, Until, checker, verify_partitions,
};
use redrive_sqlite::Location;
use redrive_store::{
    MAX_PAGE, Operator, PartitionFilter, PartitionOrder, PartitionRecord, PartitionWish, Store,
    WorkerId,
};
use tempfile::TempDir;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
};

use super::{
    cast::Actor,
    desk::{DAEMON, Desk},
    ending::Lived,
    plan::Plan,
};
use crate::simulator::{
    bells::Bells,
    chance::Chance,
    clock::SimClock,
    faulty_store::FaultyStore,
    gate::Gate,
    log::{Log, What},
    mutants::{Mutant, Rule},
    weather::{Conditions, LONGEST_TROUBLE, Weather},
    world::open,
};

/// Who sees to it that a world comes to its end.
const WORLD: &str = "world";

/// How long nothing may be judged in the calm while something is left to do.
const STUCK: Duration = Duration::from_secs(1_800);

/// A worker or a daemon.
struct Process {
    gate: Arc<Gate>,
    weather: Arc<Weather>,
    stopper: Stopper,
    task: JoinHandle<()>,
}

struct World {
    seed: u64,
    plan: Arc<Plan>,
    chance: Chance,
    clock: Arc<SimClock>,
    log: Arc<Log>,
    bells: Arc<Bells>,
    store: Arc<dyn Store>,
    sink: RawSink,
    mutant: Option<Arc<Mutant>>,
    weather: Arc<Weather>,
    processes: BTreeMap<String, Process>,
    errands: JoinSet<Result<(), String>>,
    deaths: (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>),
    problems: Vec<String>,
    _folder: Option<TempDir>,
}

/// Lets the world of a seed live, with a store that breaks a rule if one is given.
pub(crate) fn live(seed: u64, broken: Option<Rule>) -> Lived {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
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
        let plan = Arc::new(Plan::new(&mut chance));
        let clock = Arc::new(SimClock::new());
        let folder = broken.map(|_| tempfile::tempdir().unwrap());
        let location = folder
            .as_ref()
            .map_or(Location::Memory, |folder| Location::File(folder.path().join("store.db")));
        let mutant = broken.map(|rule| Arc::new(Mutant::new(rule, &location)));
        let store: Arc<dyn Store> = Arc::new(open(location, &clock));
        if let Some(mutant) = &mutant {
            mutant.prepare();
        }
        let bells = Arc::new(Bells::default());
        tokio::spawn(bells.clone().ring(store.clone()));
        Self {
            seed,
            plan,
            chance,
            log: Arc::new(Log::new(clock.clone())),
            clock,
            bells,
            store,
            sink: RawSink::objects(Arc::new(InMemory::new()), "", "memory:").unwrap(),
            mutant,
            weather: Arc::default(),
            processes: BTreeMap::new(),
            errands: JoinSet::new(),
            deaths: mpsc::unbounded_channel(),
            problems: Vec::new(),
            _folder: folder,
        }
    }

    fn rules(&self) -> PartitionRules {
        self.plan.rules()
    }

    /// Things happen, more or less bad ones.
    async fn rough(&mut self) {
        self.meddle();
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
            0..=29 => self.meddle(),
            30..=39 => self.consume(),
            40..=46 if troubles.crashes => self.pick(|world, id| world.crash(id)),
            47..=55 if troubles.freezes => self.pick(|world, id| world.freeze(id)),
            56..=60 if troubles.restarts => self.pick(|world, id| world.stop(id)),
            61..=74 => self.start_missing(),
            75..=78 if troubles.jumps => self.jump(),
            79..=94 if troubles.weather => self.change_weather(),
            _ => {}
        }
        self.processes.retain(|_, process| !process.task.is_finished());
    }

    /// Workers or daemons that are gone come back under other names.
    fn start_missing(&mut self) {
        let daemons = self.processes.keys().filter(|id| id.starts_with(DAEMON)).count() as u64;
        let workers = self.processes.len() as u64 - daemons;
        if workers < self.plan.workers {
            self.start_worker();
        }
        if daemons < self.plan.daemons {
            self.start_daemon();
        }
    }

    fn way(&mut self, who: &str, gate: &Arc<Gate>, weather: &Arc<Weather>) -> Arc<FaultyStore> {
        let deaf = self.chance.one_in(4);
        Arc::new(FaultyStore {
            inner: self.store.clone(),
            who: who.to_owned(),
            gate: gate.clone(),
            weather: weather.clone(),
            chance: self.chance.fork().into(),
            log: self.log.clone(),
            mutant: self.mutant.clone(),
            bells: self.bells.clone(),
            deaf,
        })
    }

    fn desk(&mut self, who: &str, gate: &Arc<Gate>, weather: &Arc<Weather>) -> Desk {
        let store = self.way(who, gate, weather);
        let (clock, log) = (self.clock.clone(), self.log.clone());
        Desk {
            store,
            rules: self.rules(),
            sink: self.sink.clone(),
            clock,
            log,
            who: who.to_owned(),
        }
    }

    fn start_worker(&mut self) {
        let id = format!("w-{:016x}", self.chance.next());
        let (gate, weather) = (Arc::new(Gate::new()), Arc::new(Weather::default()));
        let store = self.way(&id, &gate, &weather);
        let actor = Actor {
            seed: self.seed,
            worker: id.clone(),
            deadly: self.plan.troubles.crashes,
            gate: gate.clone(),
            log: self.log.clone(),
            deaths: self.deaths.0.clone(),
        };
        let engine = Engine::new(store).with_clock(self.clock.clone());
        let sources = self.plan.sources.iter().map(|plan| actor.plays(plan, &self.sink));
        let engine = sources.fold(engine, Engine::with_source);
        let worker = WorkerId(id.clone());
        self.start(id, gate, weather, |stop| async move {
            engine.run_as(worker, stop, Until::Stopped).await;
        });
    }

    fn start_daemon(&mut self) {
        let id = format!("{DAEMON}{:016x}", self.chance.next());
        let (gate, weather) = (Arc::new(Gate::new()), Arc::new(Weather::default()));
        let desk = self.desk(&id, &gate, &weather);
        let interval = self.plan.interval;
        self.start(id, gate, weather, move |stop| async move {
            desk.daemon().run(interval, stop).await;
        });
    }

    fn start<F>(
        &mut self,
        id: String,
        gate: Arc<Gate>,
        weather: Arc<Weather>,
        run: impl FnOnce(Stop) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.log.add(&id, What::Started);
        let (stopper, stop) = Stopper::new();
        let (log, name, running) = (self.log.clone(), id.clone(), run(stop));
        let task = tokio::spawn(async move {
            running.await;
            log.add(&name, What::Gone);
        });
        self.processes.insert(id, Process { gate, weather, stopper, task });
    }

    fn pick(&mut self, then: impl FnOnce(&mut Self, &str)) {
        let ids: Vec<String> = self.processes.keys().cloned().collect();
        if !ids.is_empty() {
            let id = self.chance.pick(&ids).clone();
            then(self, &id);
        }
    }

    /// A process dies in the middle of whatever it does.
    fn crash(&mut self, id: &str) {
        if let Some(process) = self.processes.remove(id) {
            self.log.add(id, What::Crashed);
            process.gate.kill();
            process.task.abort();
        }
    }

    /// A process stands still for a time, often for longer than its leases.
    fn freeze(&mut self, id: &str) {
        let lease = self.chance.pick(&self.plan.sources).pace.lease.as_millis() as u64;
        let time = self.chance.millis(lease / 4, lease * 3).min(LONGEST_TROUBLE);
        let (gate, log, id) = (self.processes[id].gate.clone(), self.log.clone(), id.to_owned());
        log.add(&id, What::Froze);
        gate.freeze();
        self.errands.spawn(async move {
            tokio::time::sleep(time).await;
            log.add(&id, What::Thawed);
            gate.thaw();
            Ok(())
        });
    }

    fn stop(&mut self, id: &str) {
        self.log.add(id, What::Stopping);
        self.processes[id].stopper.stop();
    }

    fn meddle(&mut self) {
        let (gate, weather) = (Arc::new(Gate::new()), self.weather.clone());
        let desk = self.desk("ada", &gate, &weather);
        let (plan, chance) = (self.plan.clone(), self.chance.fork());
        self.errands.spawn(async move {
            desk.meddle(plan, chance).await;
            Ok(())
        });
    }

    fn consume(&mut self) {
        let (gate, weather) = (Arc::new(Gate::new()), self.weather.clone());
        let desk = self.desk("reader", &gate, &weather);
        let chance = self.chance.fork();
        self.errands.spawn(desk.consume(chance));
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
            self.weather.set(conditions);
            self.processes.values().for_each(|process| process.weather.set(conditions));
        } else {
            self.pick(|world, id| world.processes[id].weather.set(conditions));
        }
    }

    /// Faults end, and everything that can come to its end must.
    async fn calm(&mut self) {
        self.log.add(WORLD, What::Calm);
        self.weather.set(Conditions::default());
        self.processes.values().for_each(|process| process.weather.set(Conditions::default()));
        while let Some(done) = self.errands.join_next().await {
            self.problems.extend(done.unwrap().err());
        }
        self.resume_all().await;
        let (mut judged, mut since) = (0, self.clock.elapsed());
        loop {
            self.processes.retain(|_, process| !process.task.is_finished());
            self.start_missing();
            tokio::select! {
                biased;
                Some(worker) = self.deaths.1.recv() => self.crash(&worker),
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            match self.what_is_left().await {
                Left::Nothing => return,
                Left::Waiting(due) => self.wait_until(due),
                Left::Work => {}
            }
            let count = self.log.verdicts();
            if count > judged {
                (judged, since) = (count, self.clock.elapsed());
            } else if self.clock.elapsed() > since + STUCK {
                self.problems.push("nothing is judged any more".to_owned());
                return;
            }
        }
    }

    async fn resume_all(&mut self) {
        let way = self.way(WORLD, &Arc::new(Gate::new()), &Arc::default());
        let by = Operator { actor: WORLD.to_owned(), at: self.clock.now(), reason: None };
        let command = "state resume".to_owned();
        let order = PartitionOrder { by, command, filter: None, flags: Vec::new() };
        let named: Vec<_> = self.all().await.into_iter().map(|record| record.key.into()).collect();
        let store: &dyn Store = &*way;
        store.change_partitions(&PartitionWish::Resume, &named, &order).await.unwrap();
    }

    async fn all(&self) -> Vec<PartitionRecord> {
        let all = PartitionFilter::default();
        self.store.partitions_page(&all, None, MAX_PAGE).await.unwrap()
    }

    async fn what_is_left(&self) -> Left {
        let (rules, now) = (self.rules(), self.clock.now());
        let mut due: Option<Timestamp> = None;
        for partition in self.all().await {
            if partition.work.is_some() || partition.status == PartitionStatus::Pending {
                return Left::Work;
            }
            if let Some(Prospect::RetryAt { at, .. }) = rules.prospect(&partition, now) {
                due = due.into_iter().chain([at]).min();
            }
        }
        due.map_or(Left::Nothing, Left::Waiting)
    }

    /// Years pass: nobody has to sit through them.
    fn wait_until(&mut self, due: Timestamp) {
        let wait = due.duration_since(self.clock.now());
        if wait > SignedDuration::from_secs(2) {
            self.set_clock(wait);
        }
    }

    async fn check(&mut self, when: &str) {
        let store = checker::check(&*self.store).await.unwrap();
        let raw = verify_partitions(&*self.store, &self.sink).await.unwrap();
        let findings = store.findings.iter().chain(&raw.findings);
        self.problems.extend(findings.map(|finding| format!("{when}: {finding}")));
    }

    /// Stops what is left, has a daemon look twice more, and gathers what there is.
    async fn end(mut self) -> Lived {
        for (id, process) in std::mem::take(&mut self.processes) {
            process.stopper.stop();
            if tokio::time::timeout(LONGEST_TROUBLE * 2, process.task).await.is_err() {
                self.problems.push(format!("{id} does not stop"));
            }
        }
        let (gate, weather) = (Arc::new(Gate::new()), Arc::default());
        let daemon = self.desk(&format!("{DAEMON}last"), &gate, &weather).daemon();
        for _ in 0..2 {
            let tick = daemon.tick().await.unwrap();
            if tick.retried > 0 {
                self.problems.push(format!("something was left to do: {tick:?}"));
            }
        }
        Lived::new(&self.plan, &self.log, &*self.store, &self.sink, self.problems).await
    }
}

/// What the partitions still need.
#[derive(Debug, Clone, Copy)]
enum Left {
    Nothing,
    Waiting(Timestamp),
    Work,
}
