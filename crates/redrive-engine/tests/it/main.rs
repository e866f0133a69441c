//! Tests of the engine, on real SQLite files and real processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that fails should fail loudly, and a child talks to its parent by printing"
)]

mod checker;
mod daemon_loop;
mod item_checker;
mod partition_checker;
mod partition_plans;
mod sample_checker;

mod alone;
mod attempt_logs;
mod busy_queue;
mod program;

mod exec;
mod exec_endings;
mod exec_environment;
mod exec_output;
mod reply;

mod streaming;

mod stream;
mod stream_endings;
mod stream_faults;
mod stream_restarts;

mod capacity;

mod web;

mod gated_items;
mod gates;
mod http;
mod http_connections;
mod http_failures;

mod extraction;

mod consumer;
mod extractor_fn;
mod http_paging;
mod lost_partitions;

mod tiny_work;
mod worker_clocks;
mod worker_loop;
mod worker_outages;

mod pipelines;
mod plans;

mod content;
mod raw;
mod validator;

mod simulator;
