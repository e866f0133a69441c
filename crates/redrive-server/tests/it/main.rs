//! Tests of the server, over real connections.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails should fail loudly"
)]

mod client;
mod receiver;
mod site;

mod attacks;
mod bounds;
mod bulk;
mod document;
mod entry;
mod fuzz;
mod health;
mod hostile;
mod list_pages;
mod lists;
mod live;
mod metrics;
mod partition_pages;
mod places;
mod plan_pages;
mod problems;
mod prune;
mod rows;
mod submits;
mod uploads;
