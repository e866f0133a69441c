//! Which worlds of partitions are tried: those that failed once, and fresh ones.

use super::{ending::Lived, world::live};
use crate::simulator::seeds::{assert_all_hold, fresh, kept, number};

/// What is wrong with the world of a seed.
fn problems(seed: u64) -> Vec<String> {
    Lived::judge(&live(seed, None))
}

// PAR-5, PAR-6, PAR-10, PAR-11, DMN-2, OPS-6
#[test]
fn partitions_keep_their_rules_through_faults_and_come_to_their_end_in_the_calm() {
    let seeds = kept(include_str!("seeds.txt")).into_iter().chain(fresh());
    assert_all_hold("partitions::seeds", seeds, problems);
}

// OPS-5
#[test]
fn the_same_seed_gives_the_same_partitions_to_the_last_event() {
    for seed in [1, 2, 3, 4, 5] {
        let (first, second) = (live(seed, None), live(seed, None));
        let differ = first.events.iter().zip(&second.events).find(|(one, other)| one != other);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first.trace(), second.trace(), "seed {seed}");
    }
}

/// Shows the world of one seed, event by event.
#[test]
fn one_seed() {
    let seed = number("REDRIVE_SIM_SEED");
    let lived = live(seed.unwrap_or(1), None);
    if seed.is_some() {
        for event in &lived.events {
            println!("{event:?}");
        }
    }
    assert_eq!(lived.judge(), [] as [String; 0]);
}
