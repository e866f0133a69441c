//! What Redrive stores, and what a store can do.
//!
//! A store is a set of traits, one per aggregate: [`Partitions`], [`Runs`], [`Items`], [`Ledger`],
//! [`Journal`], [`Leases`]. They are object safe, so the engine holds an `Arc<dyn Store>` and nothing above it
//! knows which database there is. They are batch first: a slice goes in, a vector of the same order
//! comes out, and one is the special case.
//!
//! Three rules hold for every method that changes something:
//!
//! - It is one transaction: state, ledger and journal move together or not at all.
//! - A write that ends an attempt is compare-and-set on id, state and lease epoch, and says
//!   [`Written::Applied`] or [`Written::Stale`] for each.
//! - Time comes in as an argument. No store asks a clock what to write.
//!
//! The `conformance` feature holds the suite that every store runs in full. New behaviour starts
//! there. The `failpoints` feature lets tests end the process between the steps of a write.

mod error;
mod failpoint;
mod limits;
mod schema;

mod journal;
mod ledger;

mod leases;

mod runs;

mod run_finish;

mod operators;
mod queues;

mod groups;
mod items;

mod partitions;

mod partition_filter;

mod partition_finish;

mod partition_wishes;

mod wakes;

mod store;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use error::{BoxError, Error, Result};
#[cfg(feature = "failpoints")]
pub use failpoint::pass_failpoint;
pub use groups::{ClaimedGroup, GroupClaim};
pub use items::{
    AddedItem, ItemAttempt, ItemCounts, ItemFilter, ItemGroup, ItemMove, ItemRecord, Items, NewItem,
};
pub use journal::{Journal, JournalEntry, JournalFilter, JournalRecord};
pub use leases::{ExpiredLease, HandBack, LeaseRef, Leased, Leases, WorkerId, Written};
pub use ledger::{AttemptOutcome, AttemptRecord, Ledger, LedgerPlace, UnitKind, UnitRow};
pub use limits::{
    MAX_BATCH, MAX_IDEMPOTENCY_KEY_BYTES, MAX_NAME_BYTES, MAX_PAGE, MAX_PAYLOAD_BYTES,
};
pub use operators::{Operator, RunChange, RunWish};
pub use partition_filter::{KeyPlace, PartitionFilter};
pub use partition_finish::{PartitionWrite, WorkWrite, partition_giveup};
pub use partition_wishes::{NamedPartition, PartitionChange, PartitionOrder, PartitionWish, Seen};
pub use partitions::{
    ClaimedPartition, Lane, PartitionClaim, PartitionCount, PartitionFinish, PartitionRecord,
    PartitionSeries, PartitionVerdict, PartitionWork, Partitions, WorkKind, WorkRequest,
};
pub use queues::{Outlook, PausedQueue, QueueCount, QueueStats, QueueWish};
pub use run_finish::RunColumns;
pub use runs::{
    Categories, ClaimRequest, ClaimedRun, InvalidRun, NewRun, RunEnding, RunFilter, RunFinish,
    RunRecord, Runs, SubmittedRun, Verdict,
};
pub use schema::{
    AppliedMigration, Direction, Migration, Migrator, SchemaStatus, Step, latest_version,
    plan_steps, require_version,
};
pub use store::Store;
pub use wakes::Wakes;
