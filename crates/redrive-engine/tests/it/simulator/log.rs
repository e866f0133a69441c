//! Everything that happened in a world, in order, as seen from outside.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::{PartitionKey, PartitionRunId};
use redrive_engine::Clock;
use redrive_store::{
    LeaseRef, Leased, PartitionAction, PartitionChange, RunAction, RunChange, SubmittedRun, Written,
};

use super::{
    clock::SimClock, gate_sightings::GateSighting, pipelines::SampleNews, plans::PlanNews,
    weather::Fault,
};

/// How an execution of a handler ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum How {
    /// With a verdict, as its status is stored.
    Judged(&'static str),
    /// With a failure of this code.
    Failed(String),
    /// Told to stop.
    Stopped,
    /// Dropped before its end.
    Dropped,
}

/// A verdict on its way to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoggedVerdict {
    pub(crate) lease: LeaseRef,
    pub(crate) run_id: PartitionRunId,
    pub(crate) good: bool,
    pub(crate) lost: bool,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Timestamp,
}

/// What is held, and under which epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) kind: Leased,
    pub(crate) id: i64,
    pub(crate) epoch: i64,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    /// A client sent a submission, whatever came of it.
    Sent { token: u64 },
    /// A client was told what became of its submission.
    Told { token: u64, answer: SubmittedRun },
    /// The store was told the time, with a claim or a submission: what is due by then is ready.
    Looked { queue: String, now: Timestamp },
    /// A claim or a finish met a gate.
    AtGate(Box<GateSighting>),
    /// The store gave a run to a worker.
    Claimed { run: i64, epoch: i64, attempt: u32, until: Timestamp },
    /// The store gave a partition to a worker.
    Took { key: PartitionKey, lease: LeaseRef, run_id: PartitionRunId, attempt: u32 },
    /// The store was asked to write a verdict; by the holder, or because the holder was lost.
    Judged { key: PartitionKey, verdict: LoggedVerdict, written: Written },
    /// The store was asked by the control plane.
    Wished { action: PartitionAction, key: PartitionKey, at: Timestamp, change: PartitionChange },
    /// An extractor began.
    Extracting { key: PartitionKey, run_id: PartitionRunId },
    /// A consumer read a run to its end.
    Consumed { key: PartitionKey, run_id: PartitionRunId },
    /// The store was asked to keep a lease.
    Renewed { lease: Held, until: Timestamp, written: Written },
    /// The store was asked to end an attempt; by the holder, or because the holder was lost.
    Finished { run: i64, epoch: i64, attempt: u32, lost: bool, now: Timestamp, written: Written },
    /// The store was asked to take something back.
    HandedBack { lease: Held, written: Written },
    /// The store was asked by an operator.
    Asked { action: RunAction, run: i64, change: RunChange },
    /// An operator paused or resumed a queue.
    Queue { queue: String, paused: bool },
    /// A handler began an attempt, while so many ran on this worker for this queue.
    Began { execution: usize, queue: String, run: i64, attempt: u32, running: usize },
    /// A handler's attempt is over.
    Ended { execution: usize, how: How },
    /// Something happened to the samples of a pipeline.
    Sample(SampleNews),
    /// Something happened to the units of a plan.
    Plan(PlanNews),
    /// A call of the store met a fault; perhaps one that everybody met.
    Fault { call: &'static str, fault: Fault, everybodys: bool },
    /// A worker began.
    Started,
    /// A worker was told to stop.
    Stopping,
    /// A worker that was told to stop, or had nothing left to do, is gone.
    Gone,
    /// A worker died.
    Crashed,
    /// A worker was frozen.
    Froze,
    /// A worker goes on.
    Thawed,
    /// Someone set the wall clock.
    Jumped { seconds: i64 },
    /// No more faults from here on.
    Calm,
}

/// Something that happened, when, and to whom.
#[derive(Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) at: Duration,
    pub(crate) wall: Timestamp,
    pub(crate) who: String,
    pub(crate) what: What,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>11.3?} {} {} {:?}", self.at, self.wall, self.who, self.what)
    }
}

/// Where everybody writes down what happens.
pub(crate) struct Log {
    clock: Arc<SimClock>,
    events: Mutex<Vec<Event>>,
}

impl Log {
    pub(crate) fn new(clock: Arc<SimClock>) -> Self {
        Self { clock, events: Mutex::default() }
    }

    /// Writes something down and says at which place.
    pub(crate) fn add(&self, who: &str, what: What) -> usize {
        let (at, wall) = (self.clock.elapsed(), self.clock.now());
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(Event { at, wall, who: who.to_owned(), what });
        events.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How many attempts ended so far, in whatever way.
    pub(crate) fn endings(&self) -> usize {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let ending =
            |event: &&Event| matches!(event.what, What::Finished { .. } | What::HandedBack { .. });
        events.iter().filter(ending).count()
    }

    /// How many verdicts on partitions were asked for so far.
    pub(crate) fn verdicts(&self) -> usize {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().filter(|event| matches!(event.what, What::Judged { .. })).count()
    }

    /// How many attempts at samples ended so far, as the stages saw it.
    pub(crate) fn sample_endings(&self) -> usize {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = |event: &&Event| matches!(event.what, What::Sample(SampleNews::Ended { .. }));
        events.iter().filter(ended).count()
    }

    /// How often something happened to the units of plans so far.
    pub(crate) fn plan_news(&self) -> usize {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().filter(|event| matches!(event.what, What::Plan(_))).count()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
