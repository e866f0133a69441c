//! What the core promises, clause by clause.
//!
//! A comment above a test names the clauses of the specification that it proves. Everything here is
//! arithmetic over plain data: no clock, no sleep, no I/O but the one generated document.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails should fail loudly"
)]

mod arbitrary;

mod duration;
mod logical_date;
mod unit;

mod crash_report;
mod message;

mod as_failure;
mod classify;
mod retry_after;

mod policy;
mod policy_rules;
mod retriable;

mod backoff;
mod jitter;

mod decide;
mod decide_laws;
mod preset;
mod schedule;

mod retry_forecast;
mod terminal_mark;

mod fingerprint;

mod gates;
mod partition_states;
mod pipeline_runs;
mod plans;
mod sample_states;
mod state_machines;
