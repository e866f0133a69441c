//! Redrive as its users meet it: the real program, in a fresh folder.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails should fail loudly"
)]

mod archive;
mod attempt_logs;
mod browser;
mod causes;
#[cfg(feature = "otel")]
mod collector;
mod databases;
mod fair;
mod folder;
mod own_postgres;
mod shop;
mod web;

mod actions;
mod api_and_cli;
mod chaos;
mod check;
mod cli;
mod consume;
mod daemon;
mod daemon_year;
mod dashboard;
mod dashboard_keys;
mod dashboard_looks;
mod db;
mod deploying;
mod doctor;
mod failpoints;
mod faults;
mod faults_database;
mod fuzz;
mod handlers_example;
mod http_worker;
mod idle_worker;
mod init;
mod logs;
mod notify;
mod partitions;
mod peers;
mod pipelines;
mod plan_story;
mod plans;
mod policy;
mod proxy;
mod prune;
mod queue;
mod queue_example;
mod runs;
mod runs_change;
mod runs_submit;
mod selections;
mod serve;
mod state_backfill;
mod state_plan;
mod state_retry;
mod state_views;
mod store_url;
#[cfg(feature = "otel")]
mod traced;
#[cfg(feature = "otel")]
mod traces;
mod up;
mod upload_criteria;
mod upload_log;
mod upload_retrying;
mod upload_script;
mod upload_server;
mod upload_shop;
mod uploads;
mod uploads_api;
mod uploads_content;
mod uploads_example;
mod uploads_repaired;
mod uploads_stopped;
mod why;
mod worker;
mod worker_stream;
mod workers;

// The tree itself: its words, the direction of its crates, the tests behind its promises.
mod source_tree;
mod test_functions;

mod conformance_doc;
mod crates_direction;
mod gates;
mod guarantees_doc;
mod tidy;
