//! Tests of the server, over real connections.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

mod health;
