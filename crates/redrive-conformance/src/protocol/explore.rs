//! Every world that can be reached, each once.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
};

use super::{
    laws::{broken, is_over},
    row::{Mutant, Row},
    world::{Cast, Step, World},
};

/// A walk that leads where nothing should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The law that is broken at its end.
    pub law: &'static str,
    /// The shortest way there.
    pub steps: Vec<Step>,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "broken: {}", self.law)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}

/// Everything there is.
#[derive(Debug)]
pub struct Explored {
    worlds: Vec<Visit>,
    /// How many steps lead from one to another.
    pub steps: usize,
    /// One walk for every situation that a store can be in: the row, and who wants what of it.
    pub walks: Vec<Vec<Step>>,
}

impl Explored {
    /// How many worlds there are.
    pub fn worlds(&self) -> usize {
        self.worlds.len()
    }
}

#[derive(Debug)]
struct Visit {
    world: World,
    /// Where it was first come from, and how.
    from: Option<(usize, Step)>,
    /// From where a step that helps leads here.
    helped_from: Vec<usize>,
}

/// Visits every world. The error is the first law that is broken, by one of the shortest walks.
pub fn explore(cast: Cast, mutant: Option<Mutant>) -> Result<Explored, Flaw> {
    let first = World::new(cast);
    let mut seen = HashMap::from([(first.relative(), 0)]);
    let mut worlds = vec![Visit { world: first, from: None, helped_from: Vec::new() }];
    let (mut steps, mut walks, mut situations) = (0, Vec::new(), HashSet::new());
    let mut waiting = VecDeque::from([0]);
    while let Some(at) = waiting.pop_front() {
        let Some(here) = worlds.get(at).map(|visit| visit.world.clone()) else { continue };
        for step in here.steps(mutant) {
            let Some((world, traces)) = here.after(step, mutant) else { continue };
            steps += 1;
            let way = || walk(&worlds, at).into_iter().chain([step]).collect();
            if let Some(law) = broken(&here, step, &world, &traces) {
                return Err(Flaw { law, steps: way() });
            }
            if situations.insert(Situation::of(&here, step)) {
                walks.push(way());
            }
            let next = *seen.entry(world.relative()).or_insert_with(|| {
                let from = Some((at, step));
                worlds.push(Visit { world, from, helped_from: Vec::new() });
                waiting.push_back(worlds.len() - 1);
                worlds.len() - 1
            });
            if step.helps()
                && let Some(visit) = worlds.get_mut(next)
            {
                visit.helped_from.push(at);
            }
        }
    }
    match stuck(&worlds) {
        Some(at) => {
            Err(Flaw { law: "whatever happens, an end can be reached", steps: walk(&worlds, at) })
        }
        None => Ok(Explored { worlds, steps, walks }),
    }
}

/// The steps that lead to a world.
fn walk(worlds: &[Visit], mut at: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some((from, step)) = worlds.get(at).and_then(|visit| visit.from) {
        steps.push(step);
        at = from;
    }
    steps.reverse();
    steps
}

/// A world from which steps that help do not lead to an end.
fn stuck(worlds: &[Visit]) -> Option<usize> {
    let over = |at: &usize| worlds.get(*at).is_some_and(|visit| is_over(visit.world.row.state));
    let mut waiting: Vec<usize> = (0..worlds.len()).filter(over).collect();
    let mut good: HashSet<usize> = waiting.iter().copied().collect();
    while let Some(at) = waiting.pop() {
        let before = worlds.get(at).map(|visit| visit.helped_from.as_slice()).unwrap_or_default();
        waiting.extend(before.iter().filter(|before| good.insert(**before)));
    }
    (0..worlds.len()).find(|at| !good.contains(at))
}

/// What a statement meets: the row, what is wanted, and whether who wants it holds the run.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Situation {
    row: Row,
    step: Step,
    current: Option<bool>,
}

impl Situation {
    fn of(world: &World, step: Step) -> Self {
        let (step, seat) = match step {
            Step::Claim(at) => (Step::Claim(0), world.workers.get(at)),
            Step::Renew(at) => (Step::Renew(0), world.workers.get(at)),
            Step::Say(at, said, heard) => (Step::Say(0, said, heard), world.workers.get(at)),
            Step::Die(at) => (Step::Die(0), world.workers.get(at)),
            Step::Look(at) => (Step::Look(0), world.reapers.get(at)),
            Step::Probe(at) => (Step::Probe(0), world.reapers.get(at)),
            Step::Reap(at, heard) => (Step::Reap(0, heard), world.reapers.get(at)),
            Step::Forget(at) => (Step::Forget(0), world.reapers.get(at)),
            step @ (Step::LeaseEnds | Step::Wish(_)) => (step, None),
        };
        let claim = seat.and_then(|seat| seat.claim());
        let current = claim.map(|claim| claim.epoch == world.row.epoch);
        Self { row: world.relative().row, step, current }
    }
}
