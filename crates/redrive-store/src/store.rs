//! The interface of a whole store.

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::{
    AttemptLogs, Causes, Figures, Gates, Items, Journal, Leases, Ledger, Partitions, Pipelines,
    Plans, Pruning, Result, Runs, Samples, SchemaStatus, Workers,
};

#[async_trait]
pub trait Store:
    Partitions
    + Runs
    + Items
    + Pipelines
    + Samples
    + Ledger
    + AttemptLogs
    + Journal
    + Leases
    + Pruning
    + Figures
    + Causes
    + Plans
    + Gates
    + Workers
{
    /// The lease clock. It does not jump when the wall clock is set, and every process that shares
    /// the store reads the same time.
    fn now(&self) -> Timestamp;

    /// Changes when there may be something new to claim. A hint: a listener must poll as well.
    fn wakes(&self) -> watch::Receiver<u64>;

    /// The database and its location, for people. Never shows a password.
    fn describe(&self) -> String;

    /// Fails if the store does not answer or is known to take no writes: a standby server, a full disk. Neither waits
    /// for writes in progress nor writes itself.
    async fn ping(&self) -> Result<()>;

    /// The migrations of the database. An open store has had all of them when it was opened.
    async fn schema(&self) -> Result<SchemaStatus>;

    /// Settings under which a power failure may lose or damage acknowledged writes; empty if there
    /// are none.
    async fn durability_doubts(&self) -> Result<Vec<String>>;

    /// Structural problems that the database itself reports; empty if there are none.
    async fn integrity_problems(&self) -> Result<Vec<String>>;
}
