//! The engine: a store, the queues, sources and pipelines it serves, and a loop for each.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use redrive_core::{JitterSeed, Policy, Preset};
use redrive_store::{Categories, NewRun, Result, Store, SubmittedRun, WorkerId};
use tokio::task::JoinSet;

use crate::{
    handlers::handler::Handler,
    notify::Notifier,
    partitions::{
        schedules::scheduler::{Scheduler, Seen},
        source::Source,
        work::PartitionWork,
    },
    pipelines::{Pipeline, PipelineLoops},
    runs::work::{Queue, RunWork},
    traces::Traces,
    worker::{
        work::WorkerLimits,
        worker_loop::{Until, run_worker},
    },
};
use redrive_retry::{Clock, NoRandomness, Stop, SystemClock, random_u64};

/// How long an attempt may take unless its queue, source or stage says otherwise.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(300);

/// A worker id that is unique across processes and hosts, also after a restart.
pub fn random_worker_id() -> std::result::Result<WorkerId, NoRandomness> {
    Ok(WorkerId(format!("w-{:016x}", random_u64()?)))
}

/// Does the work of a store.
pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    jitter_seed: JitterSeed,
    queues: BTreeMap<String, Queue>,
    sources: BTreeMap<String, Source>,
    pipelines: BTreeMap<String, Pipeline>,
    notifiers: BTreeMap<String, Notifier>,
    traces: Traces,
}

impl Queue {
    /// A queue with the preset `run`, the default pace and time limit, and every category.
    pub fn new(name: impl Into<String>, handler: Arc<dyn Handler>) -> Self {
        Self {
            name: name.into(),
            categories: Categories::All,
            handler,
            policy: Preset::Run.policy(),
            time_limit: DEFAULT_TIME_LIMIT,
            limits: WorkerLimits::default(),
        }
    }

    /// With a policy.
    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// With so many runs at once.
    pub fn with_concurrency(self, concurrency: usize) -> Self {
        let limits = WorkerLimits { concurrency: concurrency.max(1), ..self.limits };
        Self { limits, ..self }
    }
}

impl Engine {
    /// An engine on a store, with nothing to do yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let clock = Arc::new(SystemClock);
        Self {
            store,
            clock,
            jitter_seed: JitterSeed::default(),
            queues: BTreeMap::new(),
            sources: BTreeMap::new(),
            pipelines: BTreeMap::new(),
            notifiers: BTreeMap::new(),
            traces: Traces::default(),
        }
    }

    /// With another clock, for tests.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// With a seed of jitter; the same on every host.
    pub fn with_jitter_seed(self, jitter_seed: JitterSeed) -> Self {
        Self { jitter_seed, ..self }
    }

    /// Traces every attempt that this engine ends.
    pub fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Serves one more queue. A queue of the same name is replaced.
    pub fn with_queue(mut self, queue: Queue) -> Self {
        self.queues.insert(queue.name.clone(), queue);
        self
    }

    /// Serves one more source. A source of the same name is replaced.
    pub fn with_source(mut self, source: Source) -> Self {
        self.sources.insert(source.name.clone(), source);
        self
    }

    /// Serves the runs of one more pipeline. A pipeline of the same name is replaced.
    pub fn with_pipeline(mut self, pipeline: Pipeline) -> Self {
        self.pipelines.insert(pipeline.name.clone(), pipeline);
        self
    }

    /// Tells one more of what goes wrong for good. A notifier of the same name is replaced.
    pub fn with_notifier(mut self, notifier: Notifier) -> Self {
        self.notifiers.insert(notifier.name.clone(), notifier);
        self
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Submits runs; says for each what became of it. The queue need not be served here.
    pub async fn submit(&self, runs: &[NewRun]) -> Result<Vec<SubmittedRun>> {
        self.store.submit_runs(runs, self.clock.now()).await
    }

    /// Makes pending what the schedules of the sources have due by now, and says how many partitions
    /// that were. [`run`](Self::run) does this by itself, unless it is to drain.
    pub async fn make_due_partitions(&self) -> Result<u64> {
        let mut made = 0;
        for scheduler in self.schedulers() {
            made += scheduler.tick(&mut Seen::default()).await?;
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

    /// Serves queues, sources and pipelines until told to stop, or until nothing is due any more. Schedules make
    /// nothing due that is not asked for while draining.
    pub async fn run(&self, stop: Stop, until: Until) -> std::result::Result<(), NoRandomness> {
        let worker = random_worker_id()?;
        self.run_as(worker, stop, until).await;
        Ok(())
    }

    /// The same under a given name, which no other process may have.
    pub async fn run_as(&self, worker: WorkerId, stop: Stop, until: Until) {
        for notifier in self.notifiers.values() {
            notifier.reader(self.store.clone(), self.clock.clone()).begin().await;
        }
        let mut loops = JoinSet::new();
        for queue in self.queues.values() {
            loops.spawn(self.serve(queue, &worker, &stop, until));
        }
        for source in self.sources.values() {
            let (store, clock) = (self.store.clone(), self.clock.clone());
            let work = PartitionWork::new(
                source.clone(),
                store,
                clock,
                worker.clone(),
                self.traces.clone(),
            );
            loops.spawn(run_worker(Arc::new(work), self.store.wakes(), stop.clone(), until));
        }
        for pipeline in self.pipelines.values() {
            let all = PipelineLoops {
                pipeline: pipeline.clone(),
                store: self.store.clone(),
                clock: self.clock.clone(),
                worker: worker.clone(),
                jitter_seed: self.jitter_seed,
                traces: self.traces.clone(),
            };
            loops.spawn(all.run(stop.clone(), until));
        }
        if until == Until::Stopped {
            for scheduler in self.schedulers() {
                loops.spawn(scheduler.run(stop.clone()));
            }
            for notifier in self.notifiers.values() {
                let reader = notifier.reader(self.store.clone(), self.clock.clone());
                loops.spawn(reader.run(stop.clone()));
                loops.spawn(self.serve(&notifier.queue, &worker, &stop, until));
            }
        }
        join(loops).await;
        if until == Until::Drained {
            // What came of all of it is known only now.
            join(self.tell_the_rest(&worker, &stop).await).await;
        }
        self.release_handlers().await;
    }

    /// The loop of a queue.
    fn serve(
        &self,
        queue: &Queue,
        worker: &WorkerId,
        stop: &Stop,
        until: Until,
    ) -> impl Future<Output = ()> + Send + 'static {
        let work = RunWork {
            queue: queue.clone(),
            store: self.store.clone(),
            clock: self.clock.clone(),
            worker: worker.clone(),
            jitter_seed: self.jitter_seed,
            traces: self.traces.clone(),
        };
        run_worker(Arc::new(work), self.store.wakes(), stop.clone(), until)
    }

    /// Has every notifier read to the end of the journal, and what it tells delivered.
    async fn tell_the_rest(&self, worker: &WorkerId, stop: &Stop) -> JoinSet<()> {
        let mut loops = JoinSet::new();
        for notifier in self.notifiers.values() {
            notifier.reader(self.store.clone(), self.clock.clone()).read_all().await;
            loops.spawn(self.serve(&notifier.queue, worker, stop, Until::Drained));
        }
        loops
    }

    /// Only when every loop has ended: what is served may share a handler.
    async fn release_handlers(&self) {
        let mut releases = JoinSet::new();
        let told = self.notifiers.values().map(|notifier| &notifier.queue);
        for queue in self.queues.values().chain(told) {
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

async fn join(mut loops: JoinSet<()>) {
    while let Some(ended) = loops.join_next().await {
        if let Err(error) = ended {
            tracing::error!(error = &error as &dyn std::error::Error, "a worker loop ended");
        }
    }
}
