//! The state of the model, and the steps of its actors.

use redrive_core::RunState;

use super::{
    actors::{ModelClaim, ModelCompletion, WorkerReport},
    row::{Effect, ModelLease, ModelMutant, ModelRow},
};
use redrive_store::{RunAction, Written};

/// The number of workers and reapers. There is always one operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActorCounts {
    pub workers: usize,
    pub reapers: usize,
}

/// The state of a worker or a reaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelActor {
    /// Holds nothing. A crashed actor restarts idle.
    Idle,
    /// Holds a run, as far as the actor knows.
    Holds(ModelClaim),
    /// Wrote a report but received no response, so the actor will write the same report again.
    Unsure(ModelClaim, WorkerReport),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelState {
    pub row: ModelRow,
    pub workers: Vec<ModelActor>,
    pub reapers: Vec<ModelActor>,
}

/// One step. The number is the index of the worker or reaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelStep {
    Claim(usize),
    Renew(usize),
    /// A worker writes its report. The flag says whether the worker receives the response.
    Report(usize, WorkerReport, bool),
    CrashWorker(usize),
    ExpireLease,
    FindExpired(usize),
    /// A reaper writes to an ended lease to check that the store accepts writes. The model makes
    /// the lease live again, which is more than a reaper does: a reaper does not move the end.
    Probe(usize),
    /// A reaper writes its decision. The flag says whether the reaper receives the response.
    Reap(usize, bool),
    CrashReaper(usize),
    Operate(RunAction),
}

impl ModelStep {
    /// Whether the step advances the run: no crash, no lost response, no interference.
    pub(super) fn is_progress(self) -> bool {
        match self {
            Self::Claim(_) | Self::ExpireLease | Self::FindExpired(_) => true,
            Self::Report(_, _, acknowledged) | Self::Reap(_, acknowledged) => acknowledged,
            Self::Renew(_)
            | Self::CrashWorker(_)
            | Self::Probe(_)
            | Self::CrashReaper(_)
            | Self::Operate(_) => false,
        }
    }
}

impl ModelState {
    pub fn new(cast: ActorCounts) -> Self {
        let actors = |count| vec![ModelActor::Idle; count];
        Self {
            row: ModelRow::submitted(),
            workers: actors(cast.workers),
            reapers: actors(cast.reapers),
        }
    }

    /// The possible next steps.
    pub(super) fn possible_steps(&self, mutant: Option<ModelMutant>) -> Vec<ModelStep> {
        let mut steps: Vec<ModelStep> =
            RunAction::ALL.into_iter().map(ModelStep::Operate).collect();
        if self.row.lease == Some(ModelLease::Live) {
            steps.push(ModelStep::ExpireLease);
        }
        for (at, actor) in self.workers.iter().enumerate() {
            match actor {
                ModelActor::Idle => steps.push(ModelStep::Claim(at)),
                ModelActor::Holds(_) => {
                    let ends =
                        ModelCompletion::OF_A_WORKER.map(WorkerReport::Completed).into_iter();
                    let report = ends.chain([WorkerReport::Released]);
                    steps.extend(report.flat_map(|report| {
                        [true, false]
                            .map(|acknowledged| ModelStep::Report(at, report, acknowledged))
                    }));
                    steps.extend([ModelStep::Renew(at), ModelStep::CrashWorker(at)]);
                }
                ModelActor::Unsure(_, report) => {
                    steps
                        .extend([ModelStep::Report(at, *report, true), ModelStep::CrashWorker(at)]);
                }
            }
        }
        let lost =
            self.row.state == RunState::Processing && self.row.lease == Some(ModelLease::Expired);
        for (at, actor) in self.reapers.iter().enumerate() {
            match actor {
                ModelActor::Idle if lost && mutant != Some(ModelMutant::NoReaper) => {
                    steps.push(ModelStep::FindExpired(at));
                }
                ModelActor::Idle => {}
                ModelActor::Holds(_) | ModelActor::Unsure(..) => {
                    let reaps = [true, false].map(|acknowledged| ModelStep::Reap(at, acknowledged));
                    steps.extend(reaps);
                    steps.extend([ModelStep::Probe(at), ModelStep::CrashReaper(at)]);
                }
            }
        }
        steps
    }

    /// The state after a step and the effects of the step; `None` if the step changes nothing.
    pub(super) fn take(
        &self,
        step: ModelStep,
        mutant: Option<ModelMutant>,
    ) -> Option<(Self, Vec<Effect>)> {
        let mut state = self.clone();
        let mut effects = Vec::new();
        match step {
            ModelStep::Claim(at) => {
                let claim = state.row.claim(mutant)?;
                *state.workers.get_mut(at)? = ModelActor::Holds(claim);
            }
            ModelStep::Renew(at) => {
                let actor = state.workers.get_mut(at)?;
                let claim = actor.claim()?;
                if state.row.renew(&claim, mutant, &mut effects) == Written::Stale {
                    *actor = ModelActor::Idle;
                }
            }
            ModelStep::Report(at, report, acknowledged) => {
                let actor = state.workers.get_mut(at)?;
                let claim = actor.claim()?;
                _ = match report {
                    WorkerReport::Completed(end) => {
                        state.row.finish(&claim, end, mutant, &mut effects)
                    }
                    WorkerReport::Released => {
                        state.row.release_leases(&claim, mutant, &mut effects)
                    }
                };
                *actor =
                    if acknowledged { ModelActor::Idle } else { ModelActor::Unsure(claim, report) };
            }
            ModelStep::CrashWorker(at) => *state.workers.get_mut(at)? = ModelActor::Idle,
            ModelStep::ExpireLease => state.row.lease = Some(ModelLease::Expired),
            ModelStep::FindExpired(at) => {
                *state.reapers.get_mut(at)? = ModelActor::Holds(state.row.read())
            }
            ModelStep::Probe(at) => {
                let claim = state.reapers.get(at)?.claim()?;
                _ = state.row.renew(&claim, mutant, &mut effects);
            }
            ModelStep::Reap(at, acknowledged) => {
                let actor = state.reapers.get_mut(at)?;
                let claim = actor.claim()?;
                _ = state.row.finish(&claim, ModelCompletion::Lost, mutant, &mut effects);
                let unsure =
                    ModelActor::Unsure(claim, WorkerReport::Completed(ModelCompletion::Lost));
                *actor = if acknowledged { ModelActor::Idle } else { unsure };
            }
            ModelStep::CrashReaper(at) => *state.reapers.get_mut(at)? = ModelActor::Idle,
            ModelStep::Operate(action) => {
                if !state.row.action(action, mutant, &mut effects) {
                    return None;
                }
            }
        }
        Some((state, effects))
    }

    /// The state with numbers relative to the row, so that equivalent states are equal. All claims
    /// under past epochs are equivalent.
    pub(super) fn relative_to_row(&self) -> Self {
        let row = self.row;
        let claim = |claim: ModelClaim| {
            let past = claim.epoch != row.epoch && Some(claim.serial) != row.holder;
            if past {
                return ModelClaim { serial: 0, epoch: 0, attempt: 0, counted: 0, deferrals: 0 };
            }
            ModelClaim {
                serial: i64::from(Some(claim.serial) == row.holder),
                epoch: i64::from(claim.epoch == row.epoch),
                attempt: (claim.attempt + 1).saturating_sub(row.attempts),
                ..claim
            }
        };
        let actor = |actor: &ModelActor| match *actor {
            ModelActor::Idle => ModelActor::Idle,
            ModelActor::Holds(it) => ModelActor::Holds(claim(it)),
            ModelActor::Unsure(it, report) => match claim(it) {
                // Any report of this actor is stale.
                late if (late.epoch, late.serial) == (0, 0) => ModelActor::Holds(late),
                it => ModelActor::Unsure(it, report),
            },
        };
        let actors = |all: &[ModelActor]| {
            let mut all: Vec<ModelActor> = all.iter().map(actor).collect();
            all.sort_unstable();
            all
        };
        Self {
            row: ModelRow {
                epoch: 1,
                attempts: 0,
                claims: 0,
                holder: row.holder.map(|_| 1),
                ..row
            },
            workers: actors(&self.workers),
            reapers: actors(&self.reapers),
        }
    }
}

impl ModelActor {
    /// The claim that the actor believes to hold.
    pub fn claim(&self) -> Option<ModelClaim> {
        match self {
            Self::Idle => None,
            Self::Holds(claim) | Self::Unsure(claim, _) => Some(*claim),
        }
    }
}
