//! The protocol of leases and finishes, looked at completely (`redrive_conformance::protocol`).

use redrive_conformance::protocol::{ActorCounts, ModelMutant, ModelState, explore};

/// Three workers, a reaper; the operator is always there.
const ACTORS: ActorCounts = ActorCounts { workers: 3, reapers: 1 };

// RUN-7, PAR-10, OPS-6
#[test]
fn in_every_world_every_claim_ends_once_and_an_end_can_be_reached() {
    let explored =
        explore(ModelState::new(ACTORS), None).unwrap_or_else(|violation| panic!("{violation}"));
    let found = (explored.states, explored.steps, explored.walks.len());
    println!("{} states, {} steps, {} situations of a store", found.0, found.1, found.2);
    // Another number says that the protocol, or its model, has become another one.
    assert_eq!(found, (2_098, 19_430, 658));
}

// RUN-7
#[test]
fn two_reapers_do_no_more_than_one() {
    let cast = ActorCounts { workers: 2, reapers: 2 };
    explore(ModelState::new(cast), None).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn a_model_that_breaks_one_rule_is_found_out() {
    for (mutant, invariant) in [
        (ModelMutant::FinishIgnoresEpoch, "only the holder of a run ends its attempt"),
        (ModelMutant::FinishIgnoresState, "only the holder of a run ends its attempt"),
        (ModelMutant::FinishForgetsLedger, "the run knows how many rows the ledger has"),
        (ModelMutant::LedgerOutsideTheGuard, "the run knows how many rows the ledger has"),
        (ModelMutant::ReaperIgnoresEpoch, "only the holder of a run ends its attempt"),
        (ModelMutant::ReaperDoesNotCount, "a lost worker counts"),
        (ModelMutant::NoReaper, "an end can be reached from every state"),
        (ModelMutant::ClaimKeepsEpoch, "only the holder of a run ends its attempt"),
        (ModelMutant::ClaimTakesWhatIsHeld, "a held run is not claimed"),
        (ModelMutant::ReleaseIgnoresEpoch, "only the holder of a run ends its attempt"),
        (ModelMutant::ReleaseIgnoresState, "only the holder of a run ends its attempt"),
        (ModelMutant::RenewalIgnoresEpoch, "only the holder of a run renews its lease"),
        (
            ModelMutant::CancelWaitsForTheWorker,
            "an operator action has taken effect when the call returns",
        ),
    ] {
        let violation = explore(ModelState::new(ACTORS), Some(mutant))
            .expect_err(&format!("{mutant:?} was not noticed"));
        println!("{mutant:?}: {violation}");
        assert_eq!(violation.invariant, invariant, "{mutant:?}: {violation}");
    }
}

#[test]
fn every_mutant_is_tried() {
    let text = include_str!("protocol_model.rs");
    for mutant in ModelMutant::ALL {
        assert!(text.contains(&format!("ModelMutant::{mutant:?},")), "{mutant:?}");
    }
}
