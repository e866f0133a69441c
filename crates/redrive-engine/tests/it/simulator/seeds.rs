//! Which worlds are tried: those that failed once, always; fresh ones, as many as there is time for.

use super::{
    chance::Chance,
    verdict::{judge, trace},
    world::live,
};

/// Where fresh seeds begin unless `REDRIVE_SIM_START` says otherwise.
const START: u64 = 20_260_301;

/// How many fresh seeds there are unless `REDRIVE_SIM_SEEDS` says otherwise.
const SEEDS: u64 = 60;

/// Failing seeds that are reported before giving up.
const MAX_REPORTED: usize = 5;

/// Problems that are shown of each.
const MAX_PROBLEMS: usize = 8;

pub(super) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} = {text:?} is not a number")))
}

/// What is wrong with the world of a seed.
fn problems(seed: u64) -> Vec<String> {
    judge(&live(seed, None))
}

/// What was found wrong with the world of a seed, and how to see it again.
fn report(tests: &str, seed: u64, problems: &[String]) -> Option<String> {
    if problems.is_empty() {
        return None;
    }
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    let shown: Vec<&str> = problems.iter().take(MAX_PROBLEMS).map(String::as_str).collect();
    let shown = shown.join("\n  ");
    Some(format!(
        "failing seed: {seed}\n  {shown}\n  ({more} more)\nreplay it: REDRIVE_SIM_SEED={seed} \
         cargo test -p redrive-engine --test it simulator::{tests}::one_seed -- --nocapture\n"
    ))
}

#[track_caller]
pub(super) fn assert_all_hold(
    tests: &str,
    seeds: impl Iterator<Item = u64>,
    problems: impl Fn(u64) -> Vec<String>,
) {
    let reports = seeds.filter_map(|seed| report(tests, seed, &problems(seed)));
    let reports: Vec<String> = reports.take(MAX_REPORTED).collect();
    assert!(reports.is_empty(), "\n{}", reports.join("\n"));
}

/// The seeds of a file that keeps them.
pub(super) fn kept(file: &str) -> Vec<u64> {
    let seed = |line: &str| line.split('#').next().unwrap_or_default().trim().parse().ok();
    file.lines().filter_map(seed).collect()
}

/// Fresh seeds, as many as there is time for.
pub(super) fn fresh() -> impl Iterator<Item = u64> {
    let mut chance = Chance::new(number("REDRIVE_SIM_START").unwrap_or(START));
    let count = number("REDRIVE_SIM_SEEDS").unwrap_or(SEEDS);
    (0..count).map(move |_| chance.next())
}

// RUN-7, OPS-6
#[test]
fn worlds_that_broke_a_rule_once_keep_them_all_now() {
    let kept = kept(include_str!("seeds.txt"));
    assert_all_hold("seeds", kept.into_iter(), problems);
}

// RUN-7, OPS-6
#[test]
fn fresh_worlds_keep_every_rule_through_faults_and_finish_everything_in_the_calm() {
    assert_all_hold("seeds", fresh(), problems);
}

// OPS-5
#[test]
fn the_same_seed_gives_the_same_world_to_the_last_event() {
    for seed in [1, 2, 3, 4, 5] {
        let (first, second) = (live(seed, None), live(seed, None));
        let differ = first.events.iter().zip(&second.events).find(|(one, other)| one != other);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(trace(&first), trace(&second), "seed {seed}");
    }
}

/// Shows the world of one seed, event by event.
#[test]
fn one_seed() {
    let seed = number("REDRIVE_SIM_SEED").unwrap_or(1);
    let lived = live(seed, None);
    if number("REDRIVE_SIM_SEED").is_some() {
        println!("{:#?}", lived.plan);
        for event in &lived.events {
            println!("{event:?}");
        }
    }
    assert_all_hold("seeds", [seed].into_iter(), problems);
}
