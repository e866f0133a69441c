//! The embedded store of Redrive: one SQLite file, no setup.
//!
//! One writer thread takes all waiting commands, runs them in one transaction, commits once, and
//! answers each command after the commit. So many small writes share one `fsync`, and a batch of
//! runs costs little more than one row. Readers have their own connections and never wait for the
//! writer.
//!
//! The statements are in `queries/`, one file each. `migrations/` builds the schema; `schema.sql`
//! shows the result.

mod queries;

mod error;

mod attempt_logs;
mod backup;
mod boot_clock;
mod causes;
mod columns;
mod connection;
mod file;
mod log_limit;
mod migrator;
mod readers;
mod room;
mod sums;
mod writer;

mod samples;
mod store;

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
mod run_counts;
mod runs;
mod selected;
mod workers;

pub use backup::backup;
pub use boot_clock::SqliteLeaseClock;
pub use migrator::{MIGRATIONS, SqliteMigrator};
pub use queries::ALL as QUERIES;
pub use store::{Location, SqliteOptions, SqliteStore, SqliteSync, WriterMode};
