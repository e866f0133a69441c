//! Tests of what every store shares.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that fails should fail loudly"
)]

mod new_run;
mod schema;
mod suite_is_complete;
mod wishes;
