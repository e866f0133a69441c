//! Checks of a whole store: every unit is compared with its ledger, its journal and its invariants.
//!
//! - `checker`: runs all checks and collects their findings
//! - `unit_checks`: walks the units of one kind together with their ledger rows
//! - `ledger_reader`: reads the ledger page by page
//! - `*_checks`: read the units of one kind, and what else their invariants need
//! - `*_invariants`: what must hold for a unit, as pure functions
//! - `cause_checks`: compares the counts of causes with the ledger
//! - `raw_checks`: compares accepted partitions with their raw data
//! - `nearest`: the known name nearest to one that is not known

pub mod checker;

pub(crate) mod unit_checks;

pub(crate) mod ledger_reader;

pub(crate) mod run_invariants;

pub(crate) mod item_checks;
pub(crate) mod item_invariants;

pub(crate) mod partition_checks;
pub(crate) mod partition_invariants;

pub(crate) mod pipeline_checks;
pub(crate) mod pipeline_invariants;

pub(crate) mod sample_checks;
pub(crate) mod sample_invariants;

pub(crate) mod plan_checks;
pub(crate) mod plan_invariants;

pub(crate) mod cause_checks;

pub(crate) mod raw_checks;

pub mod nearest;
