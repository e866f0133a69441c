//! The pipeline of a world: its runs, who meddles with them, and who works on its stages.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redrive_core::{PipelineRunId, PipelineStatus, SampleId, SampleStatus};
use redrive_engine::{Engine, Handler, Pipeline};
use redrive_store::{LedgerPlace, PipelineAction, Selection, Store, UnitKind};

use super::{
    super::{
        chance::Chance,
        faulty_store::FaultyStore,
        gate::Gate,
        ground::{Ground, Identity, Left, WORLD},
    },
    cast::{Actor, SimulatedSource},
    plan::Plan,
    verdict::Lived,
};

/// The pipeline, with all its runs.
pub(crate) struct Stages {
    seed: u64,
    pub(crate) plan: Plan,
    /// The store as operators reach it.
    ops: Arc<FaultyStore>,
    breaks: Arc<AtomicBool>,
    runs: Vec<PipelineRunId>,
}

impl Stages {
    pub(crate) async fn new(seed: u64, plan: Plan, ground: &mut Ground) -> Self {
        let mut ops = ground.way(&ground.outsider("operator"));
        ops.mutant = None;
        let breaks = Arc::new(AtomicBool::new(plan.troubles.weather));
        let mut stages = Self { seed, plan, ops: Arc::new(ops), breaks, runs: Vec::new() };
        for _ in 0..stages.plan.runs {
            let run = stages.pipeline("nobody", &Arc::new(Gate::new()), ground).new_run();
            let id = ground.store.start_pipeline_run(&run, &ground.by(WORLD)).await.unwrap();
            stages.runs.push(id);
        }
        stages
    }

    /// The pipeline as a worker has it.
    fn pipeline(&self, worker: &str, gate: &Arc<Gate>, ground: &mut Ground) -> Pipeline {
        let source = SimulatedSource {
            seed: self.seed,
            lines: self.plan.lines,
            gate: gate.clone(),
            chance: ground.chance.fork().into(),
            breaks: self.breaks.clone(),
        };
        let actor: Arc<dyn Handler> = Arc::new(Actor {
            seed: self.seed,
            plan: self.plan.clone(),
            worker: worker.to_owned(),
            gate: gate.clone(),
            log: ground.log.clone(),
            truth: ground.store.clone(),
            running: Default::default(),
            deaths: ground.deaths.0.clone(),
        });
        self.plan.pipeline(Arc::new(source), &actor)
    }

    /// Has a worker serve it.
    pub(crate) fn served_by(&self, who: &Identity, engine: Engine, ground: &mut Ground) -> Engine {
        engine.with_pipeline(self.pipeline(&who.id, &who.gate, ground))
    }

    /// Does one thing that operators do.
    pub(crate) fn meddle(&self, kind: bool, ground: &mut Ground) {
        let (ops, by, rules) = (self.ops.clone(), ground.by("operator"), self.plan.rules.clone());
        let run = *ground.chance.pick(&self.runs);
        let mut chance = ground.chance.fork();
        ground.errands.spawn(async move {
            let store: &dyn Store = &*ops;
            // An operator who hears nothing leaves it at that.
            match chance.between(if kind { 4 } else { 0 }, 5) {
                0 => _ = store.change_pipeline_run(run, &PipelineAction::Cancel, &by).await,
                1..=3 => {
                    let status = Some(SampleStatus::Dlq);
                    let filter =
                        Selection { state: status.map(Into::into), ..Selection::default() };
                    let dead = store.samples_page(&filter, SampleId(0), 10.into()).await;
                    let ids = dead.unwrap_or_default().into_iter().map(|sample| sample.id);
                    let some: Vec<SampleId> = ids.filter(|_| chance.one_in(2)).collect();
                    _ = store.reprocess_samples(&some, &by).await;
                }
                _ => _ = store.change_pipeline_run(run, &PipelineAction::Resume(rules), &by).await,
            }
            Ok(())
        });
    }

    pub(crate) fn some_lease(&self, chance: &mut Chance) -> Duration {
        chance.pick(&self.plan.stages).limits.lease
    }

    /// The source breaks no more.
    pub(crate) fn calm_down(&self) {
        self.breaks.store(false, Ordering::SeqCst);
    }

    /// Has everything go on that was stopped, and says whether something was.
    pub(crate) async fn resume_all(&self, ground: &Ground) -> bool {
        let mut any = false;
        for run in ground.store.pipeline_runs_by_id(&self.runs).await.unwrap() {
            if matches!(run.progress.status, PipelineStatus::Aborted | PipelineStatus::Cancelled) {
                let action = PipelineAction::Resume(self.plan.lenient());
                ground.store.change_pipeline_run(run.id, &action, &ground.by(WORLD)).await.unwrap();
                any = true;
            }
        }
        any
    }

    pub(crate) async fn what_is_left(&self, ground: &mut Ground) -> Left {
        let served = self.pipeline("nobody", &Arc::new(Gate::new()), ground).served();
        let backlog = ground.store.pipeline_backlog(&served).await.unwrap();
        match backlog.next_due {
            due if backlog.ready || backlog.held => Left::Work(due),
            Some(due) => Left::Waiting(due),
            None => Left::Nothing,
        }
    }

    /// What is left of it in the end.
    pub(crate) async fn lived(self, ground: &Ground, problems: Vec<String>) -> Lived {
        let (all, start, store) = (Selection::default(), LedgerPlace::start(), &ground.store);
        Lived {
            seed: self.seed,
            events: ground.log.events(),
            runs: store.pipeline_runs_by_id(&self.runs).await.unwrap(),
            samples: store.samples_page(&all, SampleId(0), 10_000.into()).await.unwrap(),
            attempts: store.ledger_page(UnitKind::Sample, &start, 100_000).await.unwrap(),
            plan: self.plan,
            problems,
        }
    }
}
