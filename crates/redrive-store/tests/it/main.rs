//! Tests of what every store shares.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

mod new_run;
mod schema;
mod suite_is_complete;
