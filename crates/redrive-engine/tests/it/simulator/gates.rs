//! Worlds of runs whose queues stand behind gates that all workers share.

use std::time::Duration;

use redrive_core::{GateSettings, GateTrip};
use redrive_store::{GateRule, GateRules};

use super::{
    chance::Chance,
    gate_judges::judge,
    mutants::{Rule, SEEDS},
    seeds::{assert_all_hold, fresh},
    verdict,
    world::live_behind_gates,
};

/// The gates of a world: one that is divided by category, and one for all, with limits or a trip at times.
pub(crate) fn rules(seed: u64) -> GateRules {
    let mut chance = Chance::of(&[seed, 0x6761_7465]);
    let mut settings = || {
        let concurrency = chance.one_in(2).then(|| chance.between(1, 4) as u32);
        let rate =
            chance.one_in(4).then(|| chance.pick(&["20/s", "3/s", "30/min"]).parse().unwrap());
        let within = Duration::from_secs(60);
        let trip = chance.one_in(2).then_some(GateTrip { failures: 0.5, of: 6, within });
        let (base, cap) = (Duration::from_secs(2), Duration::from_secs(20));
        GateSettings::new(rate, concurrency, trip, base, cap).unwrap()
    };
    let rule =
        |name: &str, is_keyed, settings| GateRule { name: name.to_owned(), is_keyed, settings };
    [rule("each", true, settings()), rule("all", false, settings())].into()
}

fn problems(seed: u64) -> Vec<String> {
    let lived = live_behind_gates(seed, None);
    let mut problems = verdict::judge(&lived);
    problems.extend(judge(&lived));
    problems
}

// GAT-3, GAT-4, GAT-5
#[test]
fn fresh_worlds_behind_gates_keep_every_rule_and_finish_everything_in_the_calm() {
    assert_all_hold("gates", fresh(), problems);
}

#[test]
fn gates_close_and_open_in_worlds() {
    let closings = (1..=20).map(|seed| {
        let lived = live_behind_gates(seed, None);
        let told =
            |action: &str| lived.journal.iter().filter(|row| row.entry.action == action).count();
        (told("gate.closed"), told("gate.opened"))
    });
    let (closed, opened) = closings.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    assert!(closed > 20 && opened > 20, "{closed} closed, {opened} opened");
}

/// Replays one world: `REDRIVE_SIM_SEED=…`.
#[test]
fn one_seed() {
    if let Some(seed) = super::seeds::number("REDRIVE_SIM_SEED") {
        println!("{:#?}", rules(seed));
        for event in &live_behind_gates(seed, None).events {
            println!("{event:?}");
        }
        println!("{}", problems(seed).join("\n"));
    }
}

#[track_caller]
fn assert_found_out(rule: Rule, complaint: &str) {
    let complains = |seed: &u64| {
        let found = judge(&live_behind_gates(*seed, Some(rule)));
        found.iter().any(|problem| problem.contains(complaint))
    };
    let found = (1..=SEEDS).find(complains);
    assert!(found.is_some(), "{rule:?} was broken in {SEEDS} worlds, and nobody noticed");
}

#[test]
fn a_store_that_claims_behind_a_closed_gate_is_found_out() {
    assert_found_out(Rule::GateKept, "which was closed");
}

#[test]
fn a_store_that_closes_no_gate_is_found_out() {
    assert_found_out(Rule::RefusalCloses, "stayed open after a refusal");
}

#[test]
fn a_store_that_forgets_permits_is_found_out() {
    assert_found_out(Rule::PermitKept, "units run at once");
}

#[test]
fn a_store_that_lets_two_probes_through_is_found_out() {
    assert_found_out(Rule::PermitKept, "at once, probing, of 1");
}

#[test]
fn a_store_that_keeps_permits_beyond_their_leases_is_found_out() {
    assert_found_out(Rule::PermitEnds, "was left behind");
}

#[test]
fn a_store_that_lets_one_key_starve_is_found_out() {
    assert_found_out(Rule::OpenServed, "was left behind");
}

#[test]
fn a_store_that_gives_no_start_times_is_found_out() {
    assert_found_out(Rule::RateKept, "starts within a period");
}

#[test]
fn a_store_that_lets_every_unit_through_for_ever_is_found_out() {
    assert_found_out(Rule::PermitTold, "by a worker that had closed it");
}
