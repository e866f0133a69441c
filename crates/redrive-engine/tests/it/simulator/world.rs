//! One world: a store, workers that come and go, clients, trouble, and then calm.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use redrive_core::JitterSeed;
use redrive_engine::{Clock, Engine, Stopper, Until, checker::check};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore, Synchronous, WriterMode};
use redrive_store::{Operator, Store, WorkerId};
use tempfile::TempDir;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
};

use super::{
    bells::Bells,
    chance::Chance,
    client::{Batch, Client},
    clock::SimClock,
    faulty_store::FaultyStore,
    gate::Gate,
    lived::Lived,
    log::{Log, What},
    mutants::{Mutant, Rule},
    plan::{Plan, QueuePlan},
    script::{Actor, Script},
    weather::{Conditions, LONGEST_TROUBLE, Weather},
};

/// Who sees to it that a world comes to its end.
const WORLD: &str = "world";

/// How long nothing may end in the calm while something is left to do. Far more than a lease, a time
/// limit and a poll together.
const STUCK: Duration = Duration::from_secs(1_800);

/// Lets the world of a seed live, with a store that breaks a rule if one is given.
pub(crate) fn live(seed: u64, broken: Option<Rule>) -> Lived {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let mut world = World::new(seed, broken);
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
    plan: Plan,
    script: Script,
    chance: Chance,
    clock: Arc<SimClock>,
    log: Arc<Log>,
    bells: Arc<Bells>,
    store: Arc<dyn Store>,
    mutant: Option<Arc<Mutant>>,
    client: Client,
    clients: JoinSet<()>,
    submitted: u64,
    workers: BTreeMap<String, Worker>,
    deaths: (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>),
    problems: Vec<String>,
    _folder: Option<TempDir>,
}

impl World {
    fn new(seed: u64, broken: Option<Rule>) -> Self {
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
        let client = Client {
            store: Arc::new(FaultyStore {
                inner: store.clone(),
                who: "client".to_owned(),
                gate: Arc::new(Gate::new()),
                weather: Arc::default(),
                chance: chance.fork().into(),
                log: log.clone(),
                mutant: mutant.clone(),
                bells: bells.clone(),
                deaf: true,
            }),
            clock: clock.clone(),
            log: log.clone(),
        };
        let script = Script { seed, long: plan.long, deadly: plan.troubles.crashes };
        Self {
            plan,
            script,
            chance,
            clock,
            log,
            bells,
            store,
            mutant,
            client,
            clients: JoinSet::new(),
            submitted: 0,
            workers: BTreeMap::new(),
            deaths: mpsc::unbounded_channel(),
            problems: Vec::new(),
            _folder: folder,
        }
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
            0..=34 => self.submit(),
            35..=44 if troubles.operators => self.meddle(),
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

    fn submit(&mut self) {
        let left = self.plan.submissions - self.submitted;
        let count = self.chance.between(1, 16).min(left);
        if count > 0 {
            let tokens = self.submitted..self.submitted + count;
            self.submitted += count;
            let batch = Batch::new(tokens, &self.plan, &self.clock, &mut self.chance);
            self.clients.spawn(self.client.clone().submit(batch));
        }
    }

    fn meddle(&mut self) {
        let queue = self.chance.pick(&self.plan.queues).name.clone();
        let up_to = self.submitted.max(1);
        self.clients.spawn(self.client.clone().meddle(queue, up_to, self.chance.fork()));
    }

    fn start_worker(&mut self, until: Until) {
        let id = format!("w-{:016x}", self.chance.next());
        let (gate, weather) = (Arc::new(Gate::new()), Arc::new(Weather::default()));
        let deaf = self.chance.one_in(4);
        let store = FaultyStore {
            inner: self.store.clone(),
            who: id.clone(),
            gate: gate.clone(),
            weather: weather.clone(),
            chance: self.chance.fork().into(),
            log: self.log.clone(),
            mutant: self.mutant.clone(),
            bells: self.bells.clone(),
            deaf,
        };
        let lease = |queue: &QueuePlan| (queue.name.clone(), queue.pace.lease);
        let actor = Arc::new(Actor {
            script: self.script,
            worker: id.clone(),
            leases: self.plan.queues.iter().map(lease).collect(),
            gate: gate.clone(),
            log: self.log.clone(),
            running: Default::default(),
            deaths: self.deaths.0.clone(),
        });
        let mut engine = Engine::new(Arc::new(store))
            .with_clock(self.clock.clone())
            .with_jitter_seed(JitterSeed(self.plan.jitter_seed));
        for queue in &self.plan.queues {
            // Who is to finish everything serves everything.
            if until == Until::Drained || !self.chance.one_in(5) {
                engine = engine.with_queue(queue.handled_by(actor.clone()));
            }
        }
        self.log.add(&id, What::Started);
        let (stopper, stop) = Stopper::new();
        let (log, name) = (self.log.clone(), id.clone());
        let task = tokio::spawn(async move {
            engine.run_as(WorkerId(name.clone()), stop, until).await;
            log.add(&name, What::Gone);
        });
        self.workers.insert(id, Worker { gate, weather, stopper, task, until });
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
        let lease = self.chance.pick(&self.plan.queues).pace.lease.as_millis() as u64;
        let time = self.chance.millis(lease / 4, lease * 3).min(LONGEST_TROUBLE);
        let (gate, log, id) = (self.workers[id].gate.clone(), self.log.clone(), id.to_owned());
        log.add(&id, What::Froze);
        gate.freeze();
        self.clients.spawn(async move {
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
            self.client.store.weather.set(conditions);
            self.workers.values().for_each(|worker| worker.weather.set(conditions));
        } else {
            self.pick_worker(|world, worker| world.workers[worker].weather.set(conditions));
        }
    }

    /// Faults end, and everything that can finish must.
    async fn calm(&mut self) {
        self.log.add(WORLD, What::Calm);
        self.client.store.weather.set(Conditions::default());
        self.workers.values().for_each(|worker| worker.weather.set(Conditions::default()));
        while self.submitted < self.plan.submissions {
            self.submit();
        }
        while self.clients.join_next().await.is_some() {}
        let by = Operator { actor: WORLD.to_owned(), at: self.clock.now(), reason: None };
        for queue in &self.plan.queues {
            self.store.resume_queue(&queue.name, &by).await.unwrap();
        }
        let (mut ended, mut since) = (0, self.clock.elapsed());
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
            let left = self.what_is_left().await;
            match (drained, left) {
                (true, Left::Nothing) => return,
                (true, _) => self.problems.push(format!("a worker left early: {left:?}")),
                (false, _) if !finishing => self.start_worker(Until::Drained),
                (false, Left::Waiting(due)) => self.wait_until(due),
                (false, _) => {}
            }
            let count = self.log.endings();
            if count > ended {
                (ended, since) = (count, self.clock.elapsed());
            } else if self.clock.elapsed() > since + STUCK {
                self.problems.push(format!("nothing ends any more: {left:?}"));
                return;
            }
        }
    }

    async fn what_is_left(&self) -> Left {
        let mut due: Option<Timestamp> = None;
        for queue in &self.plan.queues {
            let outlook = self.store.outlook(&queue.name, &queue.categories).await.unwrap();
            if outlook.ready || outlook.held {
                return Left::Work;
            }
            due = due.into_iter().chain(outlook.next_due).min();
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
        let report = check(&*self.store).await.unwrap();
        self.problems.extend(report.findings.iter().map(|finding| format!("{when}: {finding}")));
    }

    /// Tells the workers that are left to stop, and gathers what there is.
    async fn end(mut self) -> Lived {
        let slowest = |queue: &QueuePlan| queue.pace.grace * 5 + queue.pace.lease;
        let patience = self.plan.queues.iter().map(slowest).max().unwrap() + LONGEST_TROUBLE;
        for (id, worker) in std::mem::take(&mut self.workers) {
            worker.stopper.stop();
            if tokio::time::timeout(patience, worker.task).await.is_err() {
                self.problems.push(format!("{id} does not stop"));
            }
        }
        let problems = self.problems;
        Lived::new(self.plan, self.script, self.clock, &self.log, &*self.store, problems).await
    }
}

/// What the queues still have to do.
#[derive(Debug, Clone, Copy)]
enum Left {
    Nothing,
    Waiting(Timestamp),
    Work,
}

pub(super) fn open(location: Location, clock: &Arc<SimClock>) -> SqliteStore {
    let lease_clock = clock.clone();
    let options = SqliteOptions {
        synchronous: Synchronous::Normal,
        writer: WriterMode::Inline,
        lease_clock: Some(Arc::new(move || lease_clock.lease_now())),
        ..SqliteOptions::default()
    };
    SqliteStore::open(location, options, clock.now()).unwrap()
}
