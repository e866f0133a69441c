//! The judges of everything are judged: a store that breaks a rule of one kind is found out among all the
//! others.

use super::world::live;
use crate::simulator::mutants::Rule;

/// Worlds within which a broken rule must be found out.
const SEEDS: u64 = 60;

/// Rules of every kind, and what is said of who breaks them.
const BROKEN: [(Rule, &str); 11] = [
    (Rule::EpochGuard, "a stale write was accepted"),
    (Rule::LedgerRow, "(ledger-numbers)"),
    (Rule::SubmissionKept, "and is lost"),
    (Rule::SuccessKept, "its state is not that of its story"),
    (Rule::VerdictCounted, "a verdict was not counted once"),
    (Rule::WishJournalled, "the journal does not tell what was done to it"),
    (Rule::AcknowledgedIsDone, "nobody sends what it knows to be acknowledged"),
    (Rule::GroupHeldOnce, "two held the group at once"),
    (Rule::DeadLetterKept, "was not executed so"),
    (Rule::EndCountedOnce, "(counts)"),
    (Rule::CauseCounted, "(cause-counts)"),
];

// RUN-7, PAR-5, UPL-7, PIP-3
#[test]
fn a_store_that_breaks_a_rule_of_any_kind_is_found_out_among_all_the_others() {
    for (rule, complaint) in BROKEN {
        let complains = |seed: &u64| {
            live(*seed, Some(rule)).problems.iter().any(|problem| problem.contains(complaint))
        };
        let found = (1..=SEEDS).find(complains);
        assert!(found.is_some(), "{rule:?} was broken in {SEEDS} worlds, and nobody noticed");
    }
}
