//! The whole store.

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::{
    Figures, Items, Journal, Leases, Ledger, Partitions, Pipelines, Pruning, Result, Runs, Samples,
    SchemaStatus,
};

/// Everything the engine needs of a database.
#[async_trait]
pub trait Store:
    Partitions + Runs + Items + Pipelines + Samples + Ledger + Journal + Leases + Pruning + Figures
{
    /// The clock of leases: it does not jump when someone sets the wall clock, and every process
    /// that shares the store reads the same time from it.
    fn now(&self) -> Timestamp;

    /// Whether that is a clock that people can set after all, such as a server's. Then it may go forward at
    /// once by any amount, and whoever judges others by it must have seen it go on for a while.
    fn clock_can_be_set(&self) -> bool;

    /// Changes whenever there may be something new to claim. A hint: who listens must poll as well.
    fn wakes(&self) -> watch::Receiver<u64>;

    /// What the store is and where, for people. Never shows a password.
    fn describe(&self) -> String;

    /// Whether the store answers, and has room for more where it can know. The error says why not.
    async fn ping(&self) -> Result<()>;

    /// Which migrations the database has. It had all of them when it was opened.
    async fn schema(&self) -> Result<SchemaStatus>;

    /// Settings of the database under which a power cut may lose or damage what was acknowledged, in words; empty if
    /// there are none.
    async fn durability_doubts(&self) -> Result<Vec<String>>;

    /// What the database itself finds wrong with its structure; empty if nothing.
    async fn integrity_problems(&self) -> Result<Vec<String>>;
}
