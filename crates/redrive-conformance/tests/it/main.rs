//! The model of the lease protocol holds its laws, and the suite is complete.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that fails should fail loudly"
)]

mod gate_model;
mod protocol_model;
mod suite_is_complete;
