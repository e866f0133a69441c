//! Which program gets a call.
//!
//! There are so many places for programs, and a program is started when a call needs it. A call goes
//! to a program that has nothing to do; else to a new one; else to the one with the fewest calls that
//! has room; else to a place where a program failed and may be started again. Otherwise it waits: a
//! call that no program has is not an attempt that could fail.

use std::{
    collections::HashSet,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redrive_core::HumanDuration;
use tokio::{
    sync::{Notify, mpsc},
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::{restart_backoff::RestartBackoff, session::ProgramCommand};
use redrive_retry::monotonic;

/// The programs of one handler.
pub(super) struct ProgramPool {
    name: String,
    in_flight: usize,
    state: Mutex<PoolState>,
    changed: Notify,
}

struct PoolState {
    slots: Vec<ProgramSlot>,
    last_restart: Option<Instant>,
    /// Whether the handler is dropped, and every program with it.
    closed: bool,
}

/// A place for a program.
#[derive(Default)]
struct ProgramSlot {
    program: SlotState,
    restart: RestartBackoff,
}

#[derive(Default)]
enum SlotState {
    #[default]
    Empty,
    /// Somebody starts it.
    Starting,
    /// It takes calls.
    Serving {
        calls: mpsc::UnboundedSender<ProgramCommand>,
        ids: HashSet<String>,
        task: AbortHandle,
    },
    /// It takes no more, and is on its way out.
    Leaving(AbortHandle),
}

/// Where a call goes.
pub(super) enum Assignment {
    /// To a program that runs.
    Running(mpsc::UnboundedSender<ProgramCommand>),
    /// To one that has to be started there.
    Start(usize),
}

impl ProgramPool {
    /// Empty places.
    pub(super) fn new(name: &str, processes: usize, in_flight: usize) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(processes, ProgramSlot::default);
        let state = Mutex::new(PoolState { slots, last_restart: None, closed: false });
        Self { name: name.to_owned(), in_flight, state, changed: Notify::new() }
    }

    /// Finds a program for a call of that id, waiting as long as it takes. Nothing is taken until it
    /// is found.
    pub(super) async fn assign(&self, id: &str) -> Assignment {
        loop {
            // Listening comes before looking: what changes in between is heard.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let due = match self.look(id, monotonic()) {
                Ok(assigned) => return assigned,
                Err(due) => due,
            };
            match due {
                None => changed.await,
                Some(due) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(due) => {}
                },
            }
        }
    }

    /// Finds one now, or says when to look again.
    fn look(&self, id: &str, now: Instant) -> Result<Assignment, Option<Instant>> {
        let mut state = self.state();
        // One call of an id at a time: two replies with one id could not be told apart.
        let room = state.slots.iter().enumerate().filter_map(|(at, slot)| match &slot.program {
            SlotState::Serving { ids, .. } if ids.len() < self.in_flight && !ids.contains(id) => {
                Some((ids.len(), at))
            }
            _ => None,
        });
        let least = room.min();
        let empty = |slot: &&ProgramSlot| matches!(slot.program, SlotState::Empty);
        let vacant = state.slots.iter().enumerate().filter(|(_, slot)| empty(slot));
        // What never failed comes before what did, and that by when it may be tried again.
        let last = state.last_restart;
        let next = vacant.map(|(at, slot)| (slot.restart.due(last), at)).min();
        match (least, next) {
            (Some((0, at)), _) => Ok(state.send_to(at, id)),
            (_, Some((None, at))) => Ok(state.start_at(at)),
            (Some((_, at)), _) => Ok(state.send_to(at, id)),
            (None, Some((Some(due), at))) if due <= now => {
                state.last_restart = Some(now);
                Ok(state.start_at(at))
            }
            (None, Some((due, _))) => Err(due),
            (None, None) => Err(None),
        }
    }

    /// Notes that a program runs at a place, with its first call. `spawn` sets it to work.
    pub(super) fn started(
        &self,
        at: usize,
        calls: mpsc::UnboundedSender<ProgramCommand>,
        id: &str,
        spawn: impl FnOnce() -> AbortHandle,
    ) {
        let mut state = self.state();
        if let Some(slot) = state.slots.get_mut(at) {
            let ids = HashSet::from([id.to_owned()]);
            // Set to work while the state is held: it may be over before this returns.
            slot.program = SlotState::Serving { calls, ids, task: spawn() };
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Notes that calls are over; `answered` if by a reply as it should be.
    fn left<'a>(&self, at: usize, left: impl IntoIterator<Item = &'a str>, answered: bool) {
        let mut state = self.state();
        if let Some(slot) = state.slots.get_mut(at) {
            if answered {
                slot.restart.answered();
            }
            if let SlotState::Serving { ids, .. } = &mut slot.program {
                left.into_iter().for_each(|id| _ = ids.remove(id));
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Notes that a program takes no more calls.
    fn leaving(&self, at: usize) {
        if let Some(slot) = self.state().slots.get_mut(at) {
            slot.leave();
        }
    }

    /// Notes that a place is empty again; after a failure it stays so for a while.
    pub(super) fn slot_emptied(&self, at: usize, failure: Option<&str>) {
        let mut state = self.state();
        let wait = state.slots.get_mut(at).and_then(|slot| {
            slot.program = SlotState::Empty;
            failure.map(|_| slot.restart.failed(at, monotonic()))
        });
        let wait = wait.filter(|_| !state.closed);
        drop(state);
        self.changed.notify_waiters();
        if let (Some(why), Some(wait)) = (failure, wait) {
            let program = self.name.as_str();
            let wait = HumanDuration::from(Duration::from_millis(wait.as_millis() as u64));
            tracing::warn!(program, slot = at, "{why}; it may be started again in {wait}");
        }
    }

    /// Asks every program to finish what it has and leave, and waits until all have.
    pub(super) async fn empty(&self) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let mut occupied = false;
            for slot in &mut self.state().slots {
                if let SlotState::Serving { calls, .. } = &slot.program {
                    // One that is gone already needs no asking.
                    _ = calls.send(ProgramCommand::Finish);
                    slot.leave();
                }
                occupied |= !matches!(slot.program, SlotState::Empty);
            }
            if !occupied {
                return;
            }
            changed.await;
        }
    }

    /// Drops every program, which kills it.
    pub(super) fn abort(&self) {
        let mut state = self.state();
        state.closed = true;
        for slot in &state.slots {
            if let SlotState::Serving { task, .. } | SlotState::Leaving(task) = &slot.program {
                task.abort();
            }
        }
    }

    /// A panic while the lock was held leaves every place in one of its states.
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    fn send_to(&mut self, at: usize, id: &str) -> Assignment {
        match self.slots.get_mut(at).map(|slot| &mut slot.program) {
            Some(SlotState::Serving { calls, ids, .. }) => {
                ids.insert(id.to_owned());
                Assignment::Running(calls.clone())
            }
            _ => Assignment::Start(at),
        }
    }

    fn start_at(&mut self, at: usize) -> Assignment {
        if let Some(slot) = self.slots.get_mut(at) {
            slot.program = SlotState::Starting;
        }
        Assignment::Start(at)
    }
}

impl ProgramSlot {
    fn leave(&mut self) {
        if let SlotState::Serving { task, .. } = &self.program {
            self.program = SlotState::Leaving(task.clone());
        }
    }
}

/// A program's hold on its place. Dropped, the place is empty again.
pub(super) struct SlotGuard {
    pool: Arc<ProgramPool>,
    at: usize,
    /// Why the program is gone, if that is its own failure.
    failure: Option<String>,
}

impl SlotGuard {
    pub(super) fn new(pool: Arc<ProgramPool>, at: usize) -> Self {
        // Until it is known better: a task that panics or is dropped did not end well.
        Self { pool, at, failure: Some("the program was dropped".to_owned()) }
    }

    pub(super) fn left<'a>(&self, ids: impl IntoIterator<Item = &'a str>, answered: bool) {
        self.pool.left(self.at, ids, answered);
    }

    pub(super) fn leaving(&self) {
        self.pool.leaving(self.at);
    }

    /// Leaves for good.
    pub(super) fn release(mut self, failure: Option<String>) {
        self.failure = failure;
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.pool.slot_emptied(self.at, self.failure.as_deref());
    }
}
