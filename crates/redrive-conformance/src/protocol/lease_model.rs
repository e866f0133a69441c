//! The protocol of leases as a model: what equivalent states have in common, and what a store meets at a step.

use super::{
    explore::Model,
    invariants::{broken, is_over},
    row::{Effect, ModelMutant, ModelRow},
    state::{ModelState, ModelStep},
};

/// The row, the step, and whether the actor holds the run.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Situation {
    row: ModelRow,
    step: ModelStep,
    current: Option<bool>,
}

impl Model for ModelState {
    type Step = ModelStep;
    type Effects = Vec<Effect>;
    type Mutant = ModelMutant;
    type Relative = Self;
    type Situation = Situation;

    fn relative(&self) -> Self {
        self.relative_to_row()
    }

    fn situation(&self, step: ModelStep) -> Situation {
        let (step, actor) = match step {
            ModelStep::Claim(at) => (ModelStep::Claim(0), self.workers.get(at)),
            ModelStep::Renew(at) => (ModelStep::Renew(0), self.workers.get(at)),
            ModelStep::Report(at, report, acknowledged) => {
                (ModelStep::Report(0, report, acknowledged), self.workers.get(at))
            }
            ModelStep::CrashWorker(at) => (ModelStep::CrashWorker(0), self.workers.get(at)),
            ModelStep::FindExpired(at) => (ModelStep::FindExpired(0), self.reapers.get(at)),
            ModelStep::Probe(at) => (ModelStep::Probe(0), self.reapers.get(at)),
            ModelStep::Reap(at, acknowledged) => {
                (ModelStep::Reap(0, acknowledged), self.reapers.get(at))
            }
            ModelStep::CrashReaper(at) => (ModelStep::CrashReaper(0), self.reapers.get(at)),
            step @ (ModelStep::ExpireLease | ModelStep::Operate(_)) => (step, None),
        };
        let claim = actor.and_then(|actor| actor.claim());
        let current = claim.map(|claim| claim.epoch == self.row.epoch);
        Situation { row: self.relative_to_row().row, step, current }
    }

    fn steps(&self, mutant: Option<ModelMutant>) -> Vec<ModelStep> {
        self.possible_steps(mutant)
    }

    fn after(&self, step: ModelStep, mutant: Option<ModelMutant>) -> Option<(Self, Vec<Effect>)> {
        self.take(step, mutant)
    }

    fn broken(&self, step: ModelStep, after: &Self, effects: &Vec<Effect>) -> Option<&'static str> {
        broken(self, step, after, effects)
    }

    fn is_progress(&self, step: ModelStep) -> bool {
        step.is_progress()
    }

    fn is_end(&self) -> bool {
        is_over(self.row.state)
    }
}
