//! The engine: a store and the queues, sources and pipelines it serves, with a loop for each and a reaper for each kind.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use redrive_core::JitterSeed;
use redrive_retry::{Clock, NoRandomness, Stop, Stopper, SystemClock, random_u64};
use redrive_store::{
    DeclaredGate, GateDeclarations, GatePlace, NewRun, Result, Store, SubmittedRun, UnitKind,
    WorkerId,
};
use tokio::task::JoinSet;

use crate::{
    notify::Notifier,
    partitions::{
        schedules::scheduler::{ScheduleProgress, Scheduler},
        source::Source,
        work::PartitionWork,
    },
    pipelines::{Pipeline, PipelineLoops},
    runs::{queue::Queue, work::RunWork},
    traces::Traces,
    worker::{
        reaper::{KindReapers, Reapers},
        reporter::WorkerReporter,
        unit_leases::WorkContext,
        work::Work,
        worker_loop::{Until, WorkerLoop},
        write_times::WriteTimes,
    },
};

/// The time limit of an attempt unless its queue, source or stage has its own.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(300);

/// A worker id that is unique across processes and hosts, also after a restart.
pub fn random_worker_id() -> std::result::Result<WorkerId, NoRandomness> {
    Ok(WorkerId(format!("w-{:016x}", random_u64()?)))
}

/// Serves the queues, sources, pipelines and notifiers of a store.
pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    jitter_seed: JitterSeed,
    write_times: Arc<WriteTimes>,
    traces: Traces,
    queues: BTreeMap<String, Queue>,
    sources: BTreeMap<String, Source>,
    pipelines: BTreeMap<String, Pipeline>,
    notifiers: BTreeMap<String, Notifier>,
    gates: GateDeclarations,
}

impl Engine {
    /// An engine that serves nothing yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            clock: Arc::new(SystemClock),
            jitter_seed: JitterSeed::default(),
            write_times: Arc::default(),
            traces: Traces::default(),
            queues: BTreeMap::new(),
            sources: BTreeMap::new(),
            pipelines: BTreeMap::new(),
            notifiers: BTreeMap::new(),
            gates: GateDeclarations::default(),
        }
    }

    /// Replaces the system clock, for tests.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Sets the jitter seed. All hosts must use the same one.
    pub fn with_jitter_seed(self, jitter_seed: JitterSeed) -> Self {
        Self { jitter_seed, ..self }
    }

    /// Adds a queue, or replaces the one of the same name.
    pub fn with_queue(mut self, queue: Queue) -> Self {
        self.queues.insert(queue.name.clone(), queue);
        self
    }

    /// Adds a source, or replaces the one of the same name.
    pub fn with_source(mut self, source: Source) -> Self {
        self.sources.insert(source.name.clone(), source);
        self
    }

    /// Adds a pipeline, or replaces the one of the same name.
    pub fn with_pipeline(mut self, pipeline: Pipeline) -> Self {
        self.pipelines.insert(pipeline.name.clone(), pipeline);
        self
    }

    /// Adds a notifier of final failures, or replaces the one of the same name.
    pub fn with_notifier(mut self, notifier: Notifier) -> Self {
        self.notifiers.insert(notifier.name.clone(), notifier);
        self
    }

    /// Declares gates with all places whose units pass them, also those that other engines serve. Gates that are not declared
    /// so have the queues, sources and stages of this engine as their places.
    pub fn with_gates(self, gates: GateDeclarations) -> Self {
        Self { gates, ..self }
    }

    /// Traces every attempt that this engine ends.
    pub fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Counts how long writes of results take, for metrics.
    pub fn with_write_times(self, write_times: Arc<WriteTimes>) -> Self {
        Self { write_times, ..self }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Submits runs, and returns the answer to each. This engine need not serve their queues.
    pub async fn submit(&self, runs: &[NewRun]) -> Result<Vec<SubmittedRun>> {
        self.store.submit_runs(runs, self.clock.now()).await
    }

    /// Creates the partitions that the schedules of the sources have due by now, and returns their number.
    /// [`run`](Self::run) does this by itself, unless it drains.
    pub async fn make_due_partitions(&self) -> Result<u64> {
        let mut made = 0;
        for scheduler in self.schedulers() {
            made += scheduler.tick(&mut ScheduleProgress::default()).await?;
        }
        Ok(made)
    }

    fn schedulers(&self) -> impl Iterator<Item = Scheduler> {
        self.sources.values().filter_map(|source| {
            Some(Scheduler {
                source: source.name.clone(),
                schedule: source.schedule.clone()?,
                store: self.store.clone(),
                clock: self.clock.clone(),
            })
        })
    }

    /// Serves queues, sources and pipelines until stopped or drained. While draining, schedules create no partitions.
    pub async fn run(&self, stop: Stop, until: Until) -> std::result::Result<(), NoRandomness> {
        let worker = random_worker_id()?;
        self.run_as(worker, stop, until).await;
        Ok(())
    }

    /// Like [`run`](Self::run), under a given worker id, which must be unique.
    pub async fn run_as(&self, worker: WorkerId, stop: Stop, until: Until) {
        for notifier in self.notifiers.values() {
            notifier.reader(self.store.clone(), self.clock.clone()).begin().await;
        }
        let context = WorkContext {
            store: self.store.clone(),
            clock: self.clock.clone(),
            worker,
            jitter_seed: self.jitter_seed,
            write_times: self.write_times.clone(),
            traces: self.traces.clone(),
            fit_trials: Arc::default(),
            declared_gates: self.declared_gates().into(),
            known_gates: Arc::default(),
        };
        self.declare_gates(&context).await;
        let mut reapers = Reapers::default();
        let mut reporter = WorkerReporter::new(&context);
        let mut loops = JoinSet::new();
        for queue in self.queues.values() {
            let queue = RunWork::new(queue.clone(), &context);
            let queue = worker_loop(queue, &mut reapers.runs, &mut reporter, &context);
            loops.spawn(queue.run(self.store.wakes(), stop.clone(), until));
        }
        for source in self.sources.values() {
            let source = PartitionWork::new(source.clone(), &context);
            let source = worker_loop(source, &mut reapers.partitions, &mut reporter, &context);
            loops.spawn(source.run(self.store.wakes(), stop.clone(), until));
        }
        for pipeline in self.pipelines.values() {
            let pipeline = PipelineLoops::new(pipeline, &context, &mut reapers, &mut reporter);
            loops.spawn(pipeline.run(stop.clone(), until));
        }
        let mut notifications = Vec::new();
        for notifier in self.notifiers.values() {
            let queue = RunWork::new(notifier.queue.clone(), &context);
            let queue = worker_loop(queue, &mut reapers.runs, &mut reporter, &context);
            notifications.push(queue);
        }
        let (reaper_stopper, reaper_stop) = Stopper::new();
        if !context.declared_gates.gates.is_empty() {
            let known = context.known_gates.clone();
            tokio::spawn(known.follow(self.store.clone(), reaper_stop.clone()));
        }
        let reapers = tokio::spawn(reapers.run(reaper_stop));
        let (reporter_stopper, reporter_stop) = Stopper::new();
        let reporter = tokio::spawn(reporter.run(stop.clone(), reporter_stop));
        let deliver = |loops: &mut JoinSet<()>, notifications: Vec<WorkerLoop<RunWork>>| {
            for notification in notifications {
                loops.spawn(notification.run(self.store.wakes(), stop.clone(), until));
            }
        };
        match until {
            Until::Stopped => {
                for scheduler in self.schedulers() {
                    loops.spawn(scheduler.run(stop.clone()));
                }
                for notifier in self.notifiers.values() {
                    let reader = notifier.reader(self.store.clone(), self.clock.clone());
                    loops.spawn(reader.run(stop.clone()));
                }
                deliver(&mut loops, notifications);
                join(loops).await;
            }
            // Final failures are known only after all other loops have ended.
            Until::Drained => {
                join(std::mem::take(&mut loops)).await;
                for notifier in self.notifiers.values() {
                    notifier.reader(self.store.clone(), self.clock.clone()).read_all().await;
                }
                deliver(&mut loops, notifications);
                join(loops).await;
            }
        }
        reaper_stopper.stop();
        _ = reapers.await;
        reporter_stopper.stop();
        _ = reporter.await;
        self.release_handlers().await;
    }

    /// Tells the store which gates the units of a configuration no longer pass. Those that they pass are declared with the first
    /// claim, also if this fails.
    async fn declare_gates(&self, context: &WorkContext) {
        if self.gates.places.is_empty() {
            return;
        }
        let declare = async {
            let (known, own) = (self.store.declared_gates().await?, &context.declared_gates);
            if known.is_empty() && own.gates.is_empty() {
                return Ok(());
            }
            self.store.declare_gates(own, self.clock.now()).await
        };
        if let Err(error) = declare.await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot declare the gates; the first claim tries again");
        }
    }

    fn declared_gates(&self) -> GateDeclarations {
        let queues =
            self.queues.values().map(|it| (UnitKind::Run, it.name.clone(), &it.gates, None));
        let sources =
            self.sources.values().map(|it| (UnitKind::Partition, it.name.clone(), &it.gates, None));
        let stages = self.pipelines.values().flat_map(|pipeline| {
            let place = |stage: &crate::Stage| format!("{}/{}", pipeline.name, stage.name);
            let stages = pipeline.stages.iter();
            stages.map(move |it| (UnitKind::Sample, place(it), &it.gates, it.gate_key.clone()))
        });
        let GateDeclarations { mut gates, mut places } = self.gates.clone();
        for (kind, place, rules, key) in queues.chain(sources).chain(stages) {
            let place = GatePlace { kind, place };
            places.push(place.clone());
            for rule in rules.iter() {
                let place = place.clone();
                match gates.iter_mut().find(|gate| gate.name == rule.name) {
                    Some(gate) if gate.places.contains(&place) => {}
                    Some(gate) => gate.places.push(place),
                    None => gates.push(DeclaredGate {
                        name: rule.name.clone(),
                        per: rule.is_keyed.then(|| "key".to_owned()),
                        key: key.clone().filter(|_| rule.is_keyed),
                        limits: rule.settings.limits_in_words(),
                        places: vec![place],
                    }),
                }
            }
        }
        GateDeclarations { gates, places }
    }

    /// Releases handlers after all loops have ended: loops may share a handler.
    async fn release_handlers(&self) {
        let mut releases = JoinSet::new();
        let notifications = self.notifiers.values().map(|notifier| &notifier.queue);
        for queue in self.queues.values().chain(notifications) {
            let handler = queue.handler.clone();
            releases.spawn(async move { handler.release().await });
        }
        for source in self.sources.values() {
            let source = source.clone();
            releases.spawn(async move { source.release().await });
        }
        for pipeline in self.pipelines.values() {
            let pipeline = pipeline.clone();
            releases.spawn(async move { pipeline.release().await });
        }
        while releases.join_next().await.is_some() {}
    }
}

/// The loop of some work, known to the reapers of its kind and to the reporter of the process.
fn worker_loop<W: Work>(
    work: W,
    reapers: &mut KindReapers,
    reporter: &mut WorkerReporter,
    context: &WorkContext,
) -> WorkerLoop<W> {
    let worker = WorkerLoop::new(Arc::new(work), context.write_times.clone());
    worker.register(reapers);
    worker.report_to(reporter);
    worker
}

async fn join(mut loops: JoinSet<()>) {
    while let Some(ended) = loops.join_next().await {
        if let Err(error) = ended {
            tracing::error!(error = &error as &dyn std::error::Error, "a worker loop panicked");
        }
    }
}
