//! Tests of the PostgreSQL store, on a real server. `scripts/postgres` starts one.
//!
//! A comment above a test names the clauses of the specification that it proves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails should fail loudly"
)]

mod noise;
mod server;

mod conformance;

mod migrations;
mod recovered_runs;
mod sample_locks;
mod sample_plans;
mod schema;
mod stored_columns;

mod lease_search;
mod plans;
mod queries;

mod batches;
mod claim_rows;
mod claims;
mod clock;
mod durability;
mod faults;
mod item_locks;
mod partition_locks;
mod pruning;
mod refusals;
mod run_locks;
mod submit_in;
mod tls;
mod wakes;
