//! Visits every reachable state once.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
};

use super::{
    invariants::{broken, is_over},
    row::{ModelMutant, ModelRow},
    state::{ActorCounts, ModelState, ModelStep},
};

/// A walk that violates an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    /// A shortest walk to the violation.
    pub steps: Vec<ModelStep>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "broken: {}", self.invariant)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}

/// The result of a complete exploration.
#[derive(Debug)]
pub struct Exploration {
    states: Vec<Visit>,
    /// The number of transitions.
    pub steps: usize,
    /// One walk for every situation of a store: the row, and the step of an actor.
    pub walks: Vec<Vec<ModelStep>>,
}

impl Exploration {
    pub fn states(&self) -> usize {
        self.states.len()
    }
}

#[derive(Debug)]
struct Visit {
    state: ModelState,
    /// The state and step from which this state was first reached.
    from: Option<(usize, ModelStep)>,
    /// The states from which a progress step leads here.
    progress_from: Vec<usize>,
}

/// Visits every state. The error is the first violation, with one of the shortest walks.
pub fn explore(cast: ActorCounts, mutant: Option<ModelMutant>) -> Result<Exploration, Violation> {
    let first = ModelState::new(cast);
    let mut seen = HashMap::from([(first.relative(), 0)]);
    let mut states = vec![Visit { state: first, from: None, progress_from: Vec::new() }];
    let (mut steps, mut walks, mut situations) = (0, Vec::new(), HashSet::new());
    let mut waiting = VecDeque::from([0]);
    while let Some(at) = waiting.pop_front() {
        let Some(here) = states.get(at).map(|visit| visit.state.clone()) else { continue };
        for step in here.steps(mutant) {
            let Some((state, effects)) = here.after(step, mutant) else { continue };
            steps += 1;
            let way = || walk(&states, at).into_iter().chain([step]).collect();
            if let Some(invariant) = broken(&here, step, &state, &effects) {
                return Err(Violation { invariant, steps: way() });
            }
            if situations.insert(Situation::of(&here, step)) {
                walks.push(way());
            }
            let next = *seen.entry(state.relative()).or_insert_with(|| {
                let from = Some((at, step));
                states.push(Visit { state, from, progress_from: Vec::new() });
                waiting.push_back(states.len() - 1);
                states.len() - 1
            });
            if step.is_progress()
                && let Some(visit) = states.get_mut(next)
            {
                visit.progress_from.push(at);
            }
        }
    }
    match stuck(&states) {
        Some(at) => Err(Violation {
            invariant: "an end can be reached from every state",
            steps: walk(&states, at),
        }),
        None => Ok(Exploration { states, steps, walks }),
    }
}

fn walk(states: &[Visit], mut at: usize) -> Vec<ModelStep> {
    let mut steps = Vec::new();
    while let Some((from, step)) = states.get(at).and_then(|visit| visit.from) {
        steps.push(step);
        at = from;
    }
    steps.reverse();
    steps
}

/// A state from which progress steps do not lead to an end.
fn stuck(states: &[Visit]) -> Option<usize> {
    let over = |at: &usize| states.get(*at).is_some_and(|visit| is_over(visit.state.row.state));
    let mut waiting: Vec<usize> = (0..states.len()).filter(over).collect();
    let mut good: HashSet<usize> = waiting.iter().copied().collect();
    while let Some(at) = waiting.pop() {
        let before = states.get(at).map(|visit| visit.progress_from.as_slice()).unwrap_or_default();
        waiting.extend(before.iter().filter(|before| good.insert(**before)));
    }
    (0..states.len()).find(|at| !good.contains(at))
}

/// The input of a statement: the row, the step, and whether the actor holds the run.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Situation {
    row: ModelRow,
    step: ModelStep,
    current: Option<bool>,
}

impl Situation {
    fn of(state: &ModelState, step: ModelStep) -> Self {
        let (step, actor) = match step {
            ModelStep::Claim(at) => (ModelStep::Claim(0), state.workers.get(at)),
            ModelStep::Renew(at) => (ModelStep::Renew(0), state.workers.get(at)),
            ModelStep::Report(at, report, acknowledged) => {
                (ModelStep::Report(0, report, acknowledged), state.workers.get(at))
            }
            ModelStep::CrashWorker(at) => (ModelStep::CrashWorker(0), state.workers.get(at)),
            ModelStep::FindExpired(at) => (ModelStep::FindExpired(0), state.reapers.get(at)),
            ModelStep::Probe(at) => (ModelStep::Probe(0), state.reapers.get(at)),
            ModelStep::Reap(at, acknowledged) => {
                (ModelStep::Reap(0, acknowledged), state.reapers.get(at))
            }
            ModelStep::CrashReaper(at) => (ModelStep::CrashReaper(0), state.reapers.get(at)),
            step @ (ModelStep::ExpireLease | ModelStep::Operate(_)) => (step, None),
        };
        let claim = actor.and_then(|actor| actor.claim());
        let current = claim.map(|claim| claim.epoch == state.row.epoch);
        Self { row: state.relative().row, step, current }
    }
}
