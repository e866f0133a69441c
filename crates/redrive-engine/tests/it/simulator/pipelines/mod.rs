//! Worlds of pipelines: workers that share runs, a source that one of them reads at a time, stages that
//! fail, hang and crash, a store that fails or loses its answers, operators, clocks that jump. When faults
//! end, every run must come to its end, with every line of its source in one place.

mod cast;
mod executions;
mod mutants;
mod news;
mod plan;
mod stages;
mod verdict;
mod world;

pub(crate) use self::{news::SampleNews, plan::Plan, stages::Stages, verdict::judge};

use self::world::live;
use super::seeds::{assert_all_hold, fresh, kept, number};

fn problems(seed: u64) -> Vec<String> {
    judge(&live(seed, None))
}

// PIP-1, PIP-2, PIP-5, PIP-7, OPS-6
#[test]
fn pipelines_keep_every_rule_through_faults_and_finish_everything_in_the_calm() {
    let seeds = kept(include_str!("seeds.txt")).into_iter().chain(fresh());
    assert_all_hold("pipelines", seeds, problems);
}

// OPS-5
#[test]
fn the_same_seed_gives_the_same_pipelines_to_the_last_event() {
    for seed in [1, 2, 3] {
        let (first, second) = (live(seed, None), live(seed, None));
        let differ = first.events.iter().zip(&second.events).find(|(one, other)| one != other);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first.samples, second.samples, "seed {seed}");
        assert_eq!(first.attempts, second.attempts, "seed {seed}");
    }
}

/// Shows the world of one seed, event by event.
#[test]
fn one_seed() {
    let seed = number("REDRIVE_SIM_SEED").unwrap_or(1);
    if number("REDRIVE_SIM_SEED").is_some() {
        let lived = live(seed, None);
        println!("{:#?}", lived.plan);
        lived.events.iter().for_each(|event| println!("{event:?}"));
    }
    assert_all_hold("pipelines", [seed].into_iter(), problems);
}
