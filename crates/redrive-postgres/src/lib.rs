//! Redrive's shared store: PostgreSQL, for many hosts.
//!
//! Everything lives in a schema of its own, `redrive`. A batch is one statement where it can be: its
//! columns travel as arrays, and state, ledger and journal are written by one data-modifying query.
//! Claims pass over what other claims hold (`FOR UPDATE SKIP LOCKED`), so workers on many hosts do
//! not wait for each other. The planner's choices are pinned on every connection: with fresh
//! statistics it would now and then read a whole table to finish a batch.
//!
//! The statements are in `queries/`, one file each; the schema is the sum of `migrations/`, written
//! out in `schema.sql`. A store never migrates: [`PostgresMigrator`] does, when someone asks.

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

mod marks;
mod store;

mod backfill;
mod figures;
mod items;
mod journal;
mod leases;
mod ledger;
mod operators;
mod partition_columns;
mod partition_writes;
mod partitions;
mod pipelines;
mod pruning;
mod queues;
mod runs;
mod sample_writes;
mod samples;
mod submit;
mod submit_in;

pub use backfill::BY_HASH;
pub use bound_query::SqlQuery;
pub use connection::SESSION;
pub use migrator::{MIGRATIONS, PostgresMigrator};
pub use queries::ALL as QUERIES;
pub use server_clock::{LeaseClock, Monotonic, Sample, ServerClock};
pub use store::{PostgresOptions, PostgresStore};
pub use submit_in::submit_in;

/// The driver. Its version is part of this crate's interface: [`submit_in`] takes its transactions.
pub use tokio_postgres;
