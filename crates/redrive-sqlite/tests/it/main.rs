//! Tests of the SQLite store, on real files.
//!
//! A comment above a test names the clauses of the specification that it proves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that fails should fail loudly, and a child talks to its parent by printing"
)]

mod child;
mod scratch;

mod conformance;
mod counting;

mod migrations;
mod queries;
mod schema;

mod claim_cost;
mod claim_order;
mod plans;

mod opening;
mod permissions;
mod refusals;

mod durability;
mod full_disk;
mod writer;
mod writer_failures;

mod append_only;
mod backup;
mod lease_clock;
mod memory;
mod wakes;
