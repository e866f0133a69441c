//! Redrive's shared store: PostgreSQL, for many hosts.
//!
//! All tables are in the schema `redrive`. Most batches are one statement: their columns are sent as arrays,
//! and one data-modifying query writes state, ledger and journal. Claims skip rows that other claims have
//! locked (`FOR UPDATE SKIP LOCKED`), so workers on many hosts do not wait for each other. Every connection
//! pins the planner's choices: with fresh statistics the planner would sometimes read a whole table to finish
//! a batch.
//!
//! `queries/` has one file per query; its parameters have names, which `bound_query` turns into numbers.
//! `migrations/` make the schema, and `schema.sql` shows the result. A store never migrates;
//! [`PostgresMigrator`] does, on request.

mod bound_query;
mod queries;

mod error;

mod tls;
mod url;

mod connection;

mod pool;
mod session;

mod batch;
mod columns;

mod migrator;
mod server_clock;

mod listener;
mod notifier;

mod claim_cursor;
mod store;

mod attempt_logs;
mod backfill;
mod causes;
mod figures;
mod gates;
mod items;
mod journal;
mod leases;
mod ledger;
mod operators;
mod partition_columns;
mod partition_writes;
mod partitions;
mod pipelines;
mod plan_kinds;
mod plans;
mod pruning;
mod queues;
mod run_claims;
mod run_passes;
mod runs;
mod sample_writes;
mod samples;
mod submit;
mod submit_in;
mod workers;

pub use backfill::BEGIN_BACKFILL;
pub use bound_query::SqlQuery;
pub use connection::SESSION_SETTINGS;
pub use migrator::{MIGRATIONS, PostgresMigrator};
pub use queries::ALL as QUERIES;
pub use server_clock::{ClockSample, MonotonicClock, PostgresLeaseClock, ServerClock};
pub use store::{PostgresOptions, PostgresStore};
pub use submit_in::submit_in;

/// The driver. Its version is part of this crate's interface, because [`submit_in`] takes its transactions.
pub use tokio_postgres;
