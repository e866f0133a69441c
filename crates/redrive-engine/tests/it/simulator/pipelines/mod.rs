//! Worlds of pipelines: workers that share runs, a source that one of them reads at a time, stages that
//! fail, hang and crash, a store that fails or loses its answers, operators, clocks that jump. When faults
//! end, every run must come to its end, with every line of its source in one place.

mod cast;
mod executions;
mod mutants;
mod news;
mod plan;
mod verdict;
mod world;

pub(crate) use self::news::SampleNews;

use self::{verdict::judge, world::live};
use super::chance::Chance;

/// How many worlds there are unless `REDRIVE_SIM_SEEDS` says otherwise.
const SEEDS: u64 = 60;

/// Seeds that broke a rule once.
const KEPT: [u64; 1] = [
    // The loop of a stage had left, drained, when an operator had the run go on.
    1_984_200_422_415_689_040,
];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[track_caller]
fn assert_holds(seed: u64) {
    let problems = judge(&live(seed, None));
    let shown: Vec<&str> = problems.iter().take(8).map(String::as_str).collect();
    let count = problems.len();
    assert!(
        problems.is_empty(),
        "failing seed {seed}, {count} problems:\n  {}\nreplay it: REDRIVE_SIM_SEED={seed} cargo test \
         -p redrive-engine --test it simulator::pipelines::one_seed -- --nocapture",
        shown.join("\n  ")
    );
}

// PIP-1, PIP-2, PIP-5, PIP-7, OPS-6
#[test]
fn pipelines_keep_every_rule_through_faults_and_finish_everything_in_the_calm() {
    KEPT.into_iter().for_each(assert_holds);
    let mut chance = Chance::new(number("REDRIVE_SIM_START").unwrap_or(20_261_116));
    let count = number("REDRIVE_SIM_SEEDS").unwrap_or(SEEDS);
    (0..count).for_each(|_| assert_holds(chance.next()));
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
    assert_holds(seed);
}
