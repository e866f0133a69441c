//! Worlds of everything at once: every worker serves queues, sources and a pipeline, daemons retry,
//! uploads come and go, operators meddle with all of it, and everything goes wrong at the same time. The
//! judges of every kind judge what is left.

mod mutants;
mod world;

use self::world::{Lived, live};
use super::seeds::{assert_all_hold, fresh, kept, number};

/// One seed in so many: a world of everything takes as long as several others.
const OF_FRESH: usize = 3;

fn problems(seed: u64) -> Vec<String> {
    live(seed, None).problems
}

// RUN-7, PAR-5, PAR-10, DMN-2, UPL-7, PIP-1, OPS-6
#[test]
fn everything_at_once_keeps_every_rule_through_faults_and_finishes_in_the_calm() {
    let some = if number("REDRIVE_SIM_SEEDS").is_some() { 1 } else { OF_FRESH };
    let seeds = kept(include_str!("seeds.txt")).into_iter().chain(fresh().step_by(some));
    assert_all_hold("mixed", seeds, problems);
}

// OPS-5
#[test]
fn the_same_seed_gives_the_same_mixed_world_to_the_last_event() {
    for seed in [1, 2, 3] {
        let (first, second): (Lived, Lived) = (live(seed, None), live(seed, None));
        let differ = first.events.iter().zip(&second.events).find(|(one, other)| one != other);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first.events.len(), second.events.len(), "seed {seed}");
    }
}

/// Shows the world of one seed, event by event.
#[test]
fn one_seed() {
    let seed = number("REDRIVE_SIM_SEED");
    let lived = live(seed.unwrap_or(1), None);
    if seed.is_some() {
        lived.events.iter().for_each(|event| println!("{event:?}"));
    }
    assert_eq!(lived.problems, [] as [String; 0]);
}
