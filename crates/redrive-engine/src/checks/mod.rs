//! Checks of a whole store: every unit is compared with its ledger and its invariants.
//!
//! - `checker`: runs all checks and collects findings
//! - `unit_checks`: reads the units of a kind together with their ledger rows
//! - `ledger_reader`: reads the ledger in pages
//! - `*_checks` and `*_invariants`: what must hold for each kind of unit
//! - `raw_checks`: compares accepted partitions with their raw data

pub mod checker;

pub(crate) mod ledger_reader;
pub(crate) mod unit_checks;

pub(crate) mod run_invariants;

pub(crate) mod item_checks;
pub(crate) mod item_invariants;

pub(crate) mod partition_checks;
pub(crate) mod partition_invariants;

pub(crate) mod pipeline_checks;
pub(crate) mod pipeline_invariants;

pub(crate) mod sample_checks;
pub(crate) mod sample_invariants;

pub(crate) mod raw_checks;
