//! Tests of what every store shares.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that fails should fail loudly"
)]

mod actions;
mod new_run;
mod row_reader;
mod schema;
