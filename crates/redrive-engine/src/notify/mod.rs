//! Notifies other systems about give-ups, aborts, dead letters, causes that come back and gates.
//!
//! A notifier reads the journal, makes events of the entries, and submits each event as a run of its own queue.
//! So an event is delivered like any other run: under a lease, retried by a policy, given up in the end, with a
//! ledger. The idempotency key of the run is the id of the event, so any number of workers may read the same
//! entries: each event is one run.
//!
//! Runs of notifier queues make no events; otherwise a receiver that is down would cause events forever.

mod cloud_event;
mod reader;

use std::sync::Arc;

use redrive_store::Store;

pub(crate) use self::reader::NotifierLoop;
use crate::runs::queue::Queue;
use redrive_retry::Clock;

/// The prefix of the names of Redrive's own queues.
pub const RESERVED_QUEUES: &str = "redrive.";

/// The events that a notifier delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotifyEvents {
    /// Give-ups of runs, partitions and items.
    pub giveups: bool,
    /// Aborts of pipeline runs.
    pub aborts: bool,
    /// One event each time the dead letters of a pipeline run pass a multiple of this number.
    pub dead_letters: Option<u64>,
    /// Causes that come back after they were marked as fixed.
    pub cause_returns: bool,
    /// Gates that close and open.
    pub gates: bool,
}

#[derive(Clone)]
pub struct Notifier {
    pub name: String,
    /// The `source` of its CloudEvents.
    pub source: String,
    pub events: NotifyEvents,
    /// The queue whose handler delivers the events. The payload of each run is a CloudEvent.
    pub queue: Queue,
}

impl Notifier {
    pub fn queue_name(notifier: &str) -> String {
        format!("{RESERVED_QUEUES}notify.{notifier}")
    }

    pub(crate) fn reader(&self, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> NotifierLoop {
        NotifierLoop { notifier: self.clone(), store, clock }
    }
}
