//! The protocol of leases and finishes, looked at completely (`redrive_conformance::protocol`).

use redrive_conformance::protocol::{Cast, Mutant, explore};

/// Three workers, a reaper; the operator is always there.
const CAST: Cast = Cast { workers: 3, reapers: 1 };

// RUN-7, PAR-10, OPS-6
#[test]
fn in_every_world_every_claim_ends_once_and_an_end_can_be_reached() {
    let explored = explore(CAST, None).unwrap_or_else(|flaw| panic!("{flaw}"));
    let found = (explored.worlds(), explored.steps, explored.walks.len());
    println!("{} worlds, {} steps, {} situations of a store", found.0, found.1, found.2);
    // Another number says that the protocol, or its model, has become another one.
    assert_eq!(found, (2_098, 19_430, 658));
}

// RUN-7
#[test]
fn two_reapers_do_no_more_than_one() {
    let cast = Cast { workers: 2, reapers: 2 };
    explore(cast, None).unwrap_or_else(|flaw| panic!("{flaw}"));
}

#[test]
fn a_model_that_breaks_one_rule_is_found_out() {
    for (mutant, law) in [
        (Mutant::FinishIgnoresEpoch, "only who holds a run ends its attempt"),
        (Mutant::FinishIgnoresState, "only who holds a run ends its attempt"),
        (Mutant::FinishForgetsLedger, "the run knows how many rows the ledger has"),
        (Mutant::LedgerOutsideTheGuard, "the run knows how many rows the ledger has"),
        (Mutant::ReaperIgnoresEpoch, "only who holds a run ends its attempt"),
        (Mutant::ReaperDoesNotCount, "a lost worker counts"),
        (Mutant::NoReaper, "whatever happens, an end can be reached"),
        (Mutant::ClaimKeepsEpoch, "only who holds a run ends its attempt"),
        (Mutant::ClaimTakesWhatIsHeld, "nobody claims what is held"),
        (Mutant::HandBackIgnoresEpoch, "only who holds a run ends its attempt"),
        (Mutant::HandBackIgnoresState, "only who holds a run ends its attempt"),
        (Mutant::RenewalIgnoresEpoch, "only who holds a run renews its lease"),
        (Mutant::CancelWaitsForTheWorker, "an operator's wish is done when it is answered"),
    ] {
        let flaw = explore(CAST, Some(mutant)).expect_err(&format!("{mutant:?} was not noticed"));
        println!("{mutant:?}: {flaw}");
        assert_eq!(flaw.law, law, "{mutant:?}: {flaw}");
    }
}

#[test]
fn every_mutant_is_tried() {
    let text = include_str!("protocol_model.rs");
    for mutant in Mutant::ALL {
        assert!(text.contains(&format!("(Mutant::{mutant:?}, ")), "{mutant:?}");
    }
}
