//! Tests of the engine, on real SQLite files.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

mod checker;
