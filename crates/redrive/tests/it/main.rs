//! Tests of the crate as Rust programs use it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails should fail loudly"
)]

#[cfg(feature = "config")]
mod config;
#[cfg(feature = "config")]
mod policy_rules;
#[cfg(feature = "tower")]
mod tower;
