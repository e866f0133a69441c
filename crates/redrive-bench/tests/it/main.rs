//! Runs the real `redrive-bench` in a fresh folder.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails should fail loudly"
)]

mod bench_folder;
mod bench_stores;

mod benchmarks;
