//! What every world stands on: a store and the ways there, clocks, weather, and processes that come and go.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use redrive_engine::{Clock, Stop, Stopper, Until, checker::check};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore, SqliteSync, WriterMode};
use redrive_store::{Operator, Store};
use tempfile::TempDir;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
};

use super::{
    bells::Bells,
    chance::Chance,
    clock::SimClock,
    faulty_store::FaultyStore,
    gate::Gate,
    log::{Log, What},
    mutants::{Mutant, Rule},
    plan::Troubles,
    weather::{Conditions, LONGEST_TROUBLE, Weather},
};

/// Who sees to it that a world comes to its end.
pub(crate) const WORLD: &str = "world";

/// How long nothing may end in the calm while something is left to do. Far more than a lease, a time
/// limit and a poll together.
pub(crate) const STUCK: Duration = Duration::from_secs(1_800);

/// A worker, a daemon or an upload.
pub(crate) struct Process {
    pub(crate) gate: Arc<Gate>,
    pub(crate) weather: Arc<Weather>,
    pub(crate) stopper: Stopper,
    pub(crate) task: JoinHandle<()>,
    pub(crate) until: Until,
}

/// What is left to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Left {
    Nothing,
    Waiting(Timestamp),
    /// Now, and perhaps something that waits.
    Work(Option<Timestamp>),
}

impl Left {
    /// What several have left together.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, left) | (left, Self::Nothing) => left,
            (Self::Waiting(one), Self::Waiting(other)) => Self::Waiting(one.min(other)),
            (Self::Work(due), Self::Waiting(other)) | (Self::Waiting(other), Self::Work(due)) => {
                Self::Work(due.into_iter().chain([other]).min())
            }
            (Self::Work(one), Self::Work(other)) => Self::Work(one.into_iter().chain(other).min()),
        }
    }
}

/// Who a process is, to the store and to whoever stops it.
pub(crate) struct Identity {
    pub(crate) id: String,
    pub(crate) gate: Arc<Gate>,
    pub(crate) weather: Arc<Weather>,
}

/// The ground.
pub(crate) struct Ground {
    pub(crate) chance: Chance,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) log: Arc<Log>,
    bells: Arc<Bells>,
    pub(crate) store: Arc<dyn Store>,
    mutant: Option<Arc<Mutant>>,
    /// The weather of those outside: clients, operators, consumers.
    pub(crate) weather: Arc<Weather>,
    pub(crate) processes: BTreeMap<String, Process>,
    /// What they are busy with, and what of it is wrong.
    pub(crate) errands: JoinSet<Result<(), String>>,
    pub(crate) deaths: (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>),
    pub(crate) problems: Vec<String>,
    _folder: Option<TempDir>,
}

/// Runs a world in virtual time.
pub(crate) fn in_virtual_time<T>(world: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(world)
}

impl Ground {
    /// With a store that breaks a rule if one is given.
    pub(crate) fn new(chance: Chance, broken: Option<Rule>) -> Self {
        let clock = Arc::new(SimClock::new());
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
        Self {
            chance,
            log: Arc::new(Log::new(clock.clone())),
            clock,
            bells,
            store,
            mutant,
            weather: Arc::default(),
            processes: BTreeMap::new(),
            errands: JoinSet::new(),
            deaths: mpsc::unbounded_channel(),
            problems: Vec::new(),
            _folder: folder,
        }
    }

    /// A name that nobody had, and all that comes with it.
    pub(crate) fn newcomer(&mut self, prefix: &str) -> Identity {
        let id = format!("{prefix}{:016x}", self.chance.next());
        let weather = Arc::<Weather>::default();
        if self.weather.now().everybodys {
            weather.set(self.weather.now());
        }
        Identity { id, gate: Arc::new(Gate::new()), weather }
    }

    /// Somebody outside.
    pub(crate) fn outsider(&self, name: &str) -> Identity {
        let weather = self.weather.clone();
        Identity { id: name.to_owned(), gate: Arc::new(Gate::new()), weather }
    }

    /// The store as somebody reaches it, who hears no notifications.
    pub(crate) fn way(&mut self, who: &Identity) -> FaultyStore {
        FaultyStore {
            inner: self.store.clone(),
            who: who.id.clone(),
            gate: who.gate.clone(),
            weather: who.weather.clone(),
            chance: self.chance.fork().into(),
            log: self.log.clone(),
            mutant: self.mutant.clone(),
            bells: self.bells.clone(),
            deaf: true,
        }
    }

    pub(crate) fn by(&self, who: &str) -> Operator {
        Operator { actor: who.to_owned(), at: self.clock.now(), reason: None }
    }

    /// Starts a process.
    pub(crate) fn start<F>(&mut self, who: Identity, until: Until, run: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Identity { id, gate, weather } = who;
        self.log.add(&id, What::Started);
        let (stopper, stop) = Stopper::new();
        let (log, name, running) = (self.log.clone(), id.clone(), run(stop));
        let task = tokio::spawn(async move {
            running.await;
            log.add(&name, What::Gone);
        });
        self.processes.insert(id, Process { gate, weather, stopper, task, until });
    }

    /// Forgets those who are gone.
    pub(crate) fn count_heads(&mut self) {
        self.processes.retain(|_, process| !process.task.is_finished());
    }

    /// Waits for a time, in which some may die of what they do.
    pub(crate) async fn pass(&mut self, time: Duration) -> bool {
        tokio::select! {
            biased;
            Some(worker) = self.deaths.1.recv() => {
                self.crash(&worker);
                false
            }
            () = tokio::time::sleep(time) => true,
        }
    }

    /// Somebody, if there is anybody.
    pub(crate) fn pick(&mut self) -> Option<String> {
        let ids: Vec<String> = self.processes.keys().cloned().collect();
        (!ids.is_empty()).then(|| self.chance.pick(&ids).clone())
    }

    /// A process dies in the middle of whatever it does.
    pub(crate) fn crash(&mut self, id: &str) {
        if let Some(process) = self.processes.remove(id) {
            self.log.add(id, What::Crashed);
            process.gate.kill();
            process.task.abort();
        }
    }

    /// A process stands still for a time, often for longer than a lease.
    fn freeze(&mut self, id: &str, lease: Duration) {
        let lease = lease.as_millis() as u64;
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
            5 => Conditions::LOST_CLAIMS,
            6 => Conditions::NO_WRITES,
            _ => Conditions::random(&mut self.chance),
        };
        let everybodys = conditions.everybodys || self.weather.now().everybodys;
        if self.chance.one_in(2) || everybodys {
            self.weather.set(conditions);
            self.processes.values().for_each(|process| process.weather.set(conditions));
        } else if let Some(id) = self.pick() {
            self.processes[&id].weather.set(conditions);
        }
    }

    /// Something goes wrong, if it is of a kind that this world knows.
    pub(crate) fn suffer(
        &mut self,
        trouble: Trouble,
        troubles: Troubles,
        some_lease: impl FnOnce(&mut Chance) -> Duration,
    ) {
        match trouble {
            Trouble::Crash if troubles.crashes => {
                if let Some(id) = self.pick() {
                    self.crash(&id);
                }
            }
            Trouble::Freeze if troubles.freezes => {
                if let Some(id) = self.pick() {
                    let lease = some_lease(&mut self.chance);
                    self.freeze(&id, lease);
                }
            }
            Trouble::Restart if troubles.restarts => {
                if let Some(id) = self.pick() {
                    self.stop(&id);
                }
            }
            Trouble::Jump if troubles.jumps => self.jump(),
            Trouble::Weather if troubles.weather => self.change_weather(),
            _ => {}
        }
    }

    /// Faults end, and whoever is busy comes to an end.
    pub(crate) fn calm_down(&mut self) {
        self.log.add(WORLD, What::Calm);
        self.weather.set(Conditions::default());
        self.processes.values().for_each(|process| process.weather.set(Conditions::default()));
    }

    pub(crate) async fn errands_done(&mut self) {
        while let Some(done) = self.errands.join_next().await {
            self.problems.extend(done.unwrap().err());
        }
    }

    /// Years pass: nobody has to sit through them. In whole microseconds, as times are stored.
    pub(crate) fn wait_until(&mut self, due: Timestamp) {
        let wait = due.duration_since(self.clock.now());
        if wait > SignedDuration::from_secs(2) {
            let part = wait.subsec_nanos() % 1_000;
            let rest = if part == 0 { 0 } else { 1_000 - part };
            self.set_clock(wait + SignedDuration::from_nanos(rest.into()));
        }
    }

    pub(crate) async fn check(&mut self, when: &str) {
        let report = check(&*self.store).await.unwrap();
        self.problems.extend(report.findings.iter().map(|finding| format!("{when}: {finding}")));
    }

    /// Tells those who are left to stop.
    pub(crate) async fn stop_all(&mut self, patience: Duration) {
        for (id, process) in std::mem::take(&mut self.processes) {
            process.stopper.stop();
            if tokio::time::timeout(patience, process.task).await.is_err() {
                self.problems.push(format!("{id} does not stop"));
            }
        }
    }
}

/// A kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Crash,
    Freeze,
    Restart,
    Jump,
    Weather,
}

pub(crate) fn open(location: Location, clock: &Arc<SimClock>) -> SqliteStore {
    let lease_clock = clock.clone();
    let options = SqliteOptions {
        synchronous: SqliteSync::Normal,
        writer: WriterMode::Inline,
        lease_clock: Some(Arc::new(move || lease_clock.lease_now())),
        ..SqliteOptions::default()
    };
    SqliteStore::open(location, options, clock.now()).unwrap()
}
