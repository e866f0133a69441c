//! Visits every reachable state once.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    hash::Hash,
};

/// States of actors and of what they share, and the steps between them.
pub trait Model: Clone {
    type Step: Copy + fmt::Debug;
    /// What a step did besides changing the state.
    type Effects;
    /// A rule that the model can break on purpose.
    type Mutant: Copy;
    /// What equivalent states have in common.
    type Relative: Eq + Hash;
    /// The input of a statement.
    type Situation: Eq + Hash;

    fn relative(&self) -> Self::Relative;

    /// What a store meets when a step is taken here.
    fn situation(&self, step: Self::Step) -> Self::Situation;

    /// The possible next steps.
    fn steps(&self, mutant: Option<Self::Mutant>) -> Vec<Self::Step>;

    /// The state after a step, and what else the step did; `None` if it cannot be taken.
    fn after(
        &self,
        step: Self::Step,
        mutant: Option<Self::Mutant>,
    ) -> Option<(Self, Self::Effects)>;

    /// The invariant that a step violates, if any.
    fn broken(
        &self,
        step: Self::Step,
        after: &Self,
        effects: &Self::Effects,
    ) -> Option<&'static str>;

    /// Whether a step goes towards the end: no crash, no lost response, no interference.
    fn is_progress(&self, step: Self::Step) -> bool;

    /// Whether this is where every state must be able to lead.
    fn is_end(&self) -> bool;
}

/// A walk that violates an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation<S> {
    pub invariant: &'static str,
    /// A shortest walk to the violation.
    pub steps: Vec<S>,
}

impl<S: fmt::Debug> fmt::Display for Violation<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "broken: {}", self.invariant)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}

/// The result of a complete exploration.
#[derive(Debug)]
pub struct Exploration<S> {
    pub states: usize,
    /// The number of transitions.
    pub steps: usize,
    /// One walk for every situation of a store.
    pub walks: Vec<Vec<S>>,
}

struct Visit<M: Model> {
    state: M,
    /// The state and step from which this state was first reached.
    from: Option<(usize, M::Step)>,
    /// The states from which a progress step leads here.
    progress_from: Vec<usize>,
}

/// Visits every state. The error is the first violation, with one of the shortest walks.
pub fn explore<M: Model>(
    first: M,
    mutant: Option<M::Mutant>,
) -> Result<Exploration<M::Step>, Violation<M::Step>> {
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
            if let Some(invariant) = here.broken(step, &state, &effects) {
                return Err(Violation { invariant, steps: way() });
            }
            if situations.insert(here.situation(step)) {
                walks.push(way());
            }
            let next = *seen.entry(state.relative()).or_insert_with(|| {
                let from = Some((at, step));
                states.push(Visit { state, from, progress_from: Vec::new() });
                waiting.push_back(states.len() - 1);
                states.len() - 1
            });
            if here.is_progress(step)
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
        None => Ok(Exploration { states: states.len(), steps, walks }),
    }
}

fn walk<M: Model>(states: &[Visit<M>], mut at: usize) -> Vec<M::Step> {
    let mut steps = Vec::new();
    while let Some((from, step)) = states.get(at).and_then(|visit| visit.from) {
        steps.push(step);
        at = from;
    }
    steps.reverse();
    steps
}

/// A state from which progress steps do not lead to an end.
fn stuck<M: Model>(states: &[Visit<M>]) -> Option<usize> {
    let over = |at: &usize| states.get(*at).is_some_and(|visit| visit.state.is_end());
    let mut waiting: Vec<usize> = (0..states.len()).filter(over).collect();
    let mut good: HashSet<usize> = waiting.iter().copied().collect();
    while let Some(at) = waiting.pop() {
        let before = states.get(at).map(|visit| visit.progress_from.as_slice()).unwrap_or_default();
        waiting.extend(before.iter().filter(|before| good.insert(**before)));
    }
    (0..states.len()).find(|at| !good.contains(at))
}
