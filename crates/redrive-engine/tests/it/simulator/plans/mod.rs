//! Worlds of plans: units fail, change and are claimed while plans run; operators pause, resume, abort and undo; executors
//! die, freeze and lose answers.

mod judge;
mod mutants;
mod news;
mod world;

pub(crate) use self::news::{PlanNews, PlanSnapshot};
use self::world::live;
use super::seeds::{assert_all_hold, fresh, kept, number};

fn problems(seed: u64) -> Vec<String> {
    live(seed, None).problems
}

// PLN-2, PLN-3, PLN-4, OPS-6
#[test]
fn plans_keep_their_rules_through_faults_and_come_to_their_end_in_the_calm() {
    let seeds = kept(include_str!("seeds.txt")).into_iter().chain(fresh());
    assert_all_hold("plans", seeds, problems);
}

// OPS-5
#[test]
fn the_same_seed_gives_the_same_world_of_plans_to_the_last_event() {
    for seed in [1, 2, 3] {
        let (first, second) = (live(seed, None), live(seed, None));
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
