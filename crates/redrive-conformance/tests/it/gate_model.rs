//! The protocol of gates, looked at completely (`redrive_conformance::protocol`).

use std::time::Duration;

use redrive_conformance::protocol::{GateModel, GateMutant, explore};
use redrive_core::GateSettings;

const WORKERS: usize = 3;

fn plain() -> GateModel {
    GateModel::new(GateSettings::default(), WORKERS)
}

fn limited() -> GateModel {
    let (base, cap) = (Duration::from_secs(10), Duration::from_secs(600));
    GateModel::new(GateSettings::new(None, Some(2), None, base, cap).unwrap(), WORKERS)
}

// GAT-3, GAT-4
#[test]
fn a_gate_closes_probes_and_opens_as_it_should_in_every_order_of_steps() {
    let explored = explore(plain(), None).unwrap_or_else(|violation| panic!("{violation}"));
    let found = (explored.states, explored.steps, explored.walks.len());
    println!("{} states, {} steps, {} situations of a store", found.0, found.1, found.2);
    // Another number says that the protocol, or its model, has become another one.
    assert_eq!(found, (6_602, 146_966, 1_001));
}

// GAT-5
#[test]
fn a_gate_with_a_limit_lets_no_more_units_through_in_any_order_of_steps() {
    explore(limited(), None).unwrap_or_else(|violation| panic!("{violation}"));
    let violation = explore(limited(), Some(GateMutant::ClaimWritesNoPermit)).err().unwrap();
    assert_eq!(violation.invariant, "no more units run at once than the gate allows");
}

#[test]
fn a_gate_that_breaks_one_rule_is_found_out() {
    for (mutant, invariant) in [
        (GateMutant::ClaimIgnoresGate, "no claim takes a unit behind a closed gate"),
        (GateMutant::ClaimIgnoresPeriod, "no claim takes a unit behind a closed gate"),
        (GateMutant::ClaimIgnoresPermits, "one unit probes at most"),
        (
            GateMutant::ClaimCountsOldPermits,
            "a gate that is not closed lets a unit through if none of this epoch is held",
        ),
        (GateMutant::ClaimWritesNoPermit, "one unit probes at most"),
        (GateMutant::FinishDoesNotClose, "the transaction of a refused attempt closes the gate"),
        (GateMutant::StaleResultCounts, "a stale report changes nothing"),
        (GateMutant::ResultIgnoresEpoch, "a result of an earlier epoch changes nothing"),
        (GateMutant::ProbeOpens, "a gate opens in steps, or by command"),
        (
            GateMutant::ReleaseKeepsPermit,
            "a gate that is not closed lets a unit through if none of this epoch is held",
        ),
        (GateMutant::ReleaseIsAnAnswer, "a lost or stopped worker says nothing about the service"),
        (
            GateMutant::ReapKeepsPermit,
            "a gate that is not closed lets a unit through if none of this epoch is held",
        ),
        (GateMutant::ReapIsAFailure, "a lost or stopped worker says nothing about the service"),
        (
            GateMutant::CancelKeepsPermit,
            "a gate that is not closed lets a unit through if none of this epoch is held",
        ),
        (GateMutant::NoReaper, "an end can be reached from every state"),
        (GateMutant::OrderIsForgotten, "an order has taken effect when the call returns"),
    ] {
        let Err(violation) = explore(plain(), Some(mutant)) else {
            panic!("{mutant:?} was not noticed");
        };
        println!("{mutant:?}: {violation}");
        assert_eq!(violation.invariant, invariant, "{mutant:?}: {violation}");
    }
}

#[test]
fn every_mutant_is_tried() {
    let text = include_str!("gate_model.rs");
    for mutant in GateMutant::ALL {
        assert!(text.contains(&format!("GateMutant::{mutant:?},")), "{mutant:?}");
    }
}
