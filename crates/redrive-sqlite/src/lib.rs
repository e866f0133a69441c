//! Redrive's embedded store: one SQLite file, no set-up.
//!
//! One writer thread takes every waiting command, runs them in one transaction, commits once and
//! answers each after the commit. Many small writers so share one `fsync`, and a batch of runs costs
//! little more than a row. Readers have connections of their own and never wait for the writer.
//!
//! The statements are in `queries/`, one file each; the schema is the sum of `migrations/`, written
//! out in `schema.sql`.

mod queries;

mod error;

mod backup;
mod boot_clock;
mod columns;
mod connection;
mod file;
mod migrator;
mod readers;
mod room;
mod sums;
mod writer;

mod samples;
mod store;

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
mod run_counts;
mod runs;

pub use backup::backup;
pub use boot_clock::SqliteLeaseClock;
pub use migrator::{MIGRATIONS, SqliteMigrator};
pub use queries::ALL as QUERIES;
pub use store::{Location, SqliteOptions, SqliteStore, SqliteSync, WriterMode};
