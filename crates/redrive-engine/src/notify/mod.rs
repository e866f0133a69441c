//! Telling somebody elsewhere what went wrong for good.
//!
//! A notifier reads the journal, makes an event of what it is to tell of, and submits it as a run of a
//! queue of its own. So an event is delivered like any other run: under a lease, tried again by a
//! policy, given up in the end, with a ledger and a story. The run's idempotency key is the event's
//! id, so that any number of workers may read the same entries: each event is one run.
//!
//! Nothing is told of the queues of notifiers themselves, or a server that is down would be told of for ever.

mod cloud_event;
mod reader;

use std::sync::Arc;

use redrive_store::Store;

pub(crate) use self::reader::NotifierLoop;
use crate::runs::work::Queue;
use redrive_retry::Clock;

/// What the names of Redrive's own queues begin with.
pub const RESERVED_QUEUES: &str = "redrive.";

/// What a notifier tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotifyEvents {
    /// Runs, partitions and items that were given up.
    pub giveups: bool,
    /// Pipeline runs that were aborted.
    pub aborts: bool,
    /// Each time the dead letters of a pipeline run pass another so many.
    pub dead_letters: Option<u64>,
}

/// Tells somebody elsewhere.
#[derive(Clone)]
pub struct Notifier {
    /// Its name.
    pub name: String,
    /// Whom its events are from: the `source` of CloudEvents.
    pub source: String,
    /// What it tells of.
    pub events: NotifyEvents,
    /// The queue of its events, whose handler delivers them. Each run's payload is a CloudEvent.
    pub queue: Queue,
}

impl Notifier {
    /// The name of the queue of a notifier.
    pub fn queue_name(notifier: &str) -> String {
        format!("{RESERVED_QUEUES}notify.{notifier}")
    }

    pub(crate) fn on(&self, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> NotifierLoop {
        NotifierLoop { notifier: self.clone(), store, clock }
    }
}
