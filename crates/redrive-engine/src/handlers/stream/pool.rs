//! Assigns calls to programs.
//!
//! A pool has a fixed number of slots for programs; a program is started when a call needs it. A call goes to
//! an idle program; else to a new one in an empty slot; else to the program with the fewest calls that can take
//! one more; else to a slot whose program failed and may be started again. Otherwise the call waits: a call
//! without a program is not an attempt that could fail.

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
use crate::handlers::program::{output::Tail, report::printable};
use redrive_retry::monotonic;

pub(super) struct ProgramPool {
    name: String,
    in_flight: usize,
    state: Mutex<PoolState>,
    changed: Notify,
}

struct PoolState {
    slots: Vec<ProgramSlot>,
    last_restart: Option<Instant>,
    restarts: u64,
    /// Whether the handler was dropped, and every program with it.
    closed: bool,
}

#[derive(Default)]
struct ProgramSlot {
    program: SlotState,
    restart: RestartBackoff,
}

#[derive(Default)]
enum SlotState {
    #[default]
    Empty,
    /// A call is starting the program.
    Starting,
    Serving {
        calls: mpsc::UnboundedSender<ProgramCommand>,
        ids: HashSet<String>,
        task: AbortHandle,
    },
    /// Takes no more calls and is about to exit.
    Leaving(AbortHandle),
}

pub(super) enum Assignment {
    Running(mpsc::UnboundedSender<ProgramCommand>),
    /// A program has to be started in this slot.
    Start(usize),
}

impl ProgramPool {
    pub(super) fn new(name: &str, processes: usize, in_flight: usize) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(processes, ProgramSlot::default);
        let state = Mutex::new(PoolState { slots, last_restart: None, restarts: 0, closed: false });
        Self { name: name.to_owned(), in_flight, state, changed: Notify::new() }
    }

    /// Finds a program for the call with this id, and waits until there is one. Cancellation while waiting
    /// has no effect on the pool.
    pub(super) async fn assign(&self, id: &str) -> Assignment {
        loop {
            // Register interest before looking, so that no change in between is missed.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let due = match self.try_assign(id, monotonic()) {
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

    /// Finds a program now, or returns when to look again.
    fn try_assign(&self, id: &str, now: Instant) -> Result<Assignment, Option<Instant>> {
        let mut state = self.state();
        // One call per id and program: two replies with one id could not be told apart.
        let room = state.slots.iter().enumerate().filter_map(|(at, slot)| match &slot.program {
            SlotState::Serving { ids, .. } if ids.len() < self.in_flight && !ids.contains(id) => {
                Some((ids.len(), at))
            }
            _ => None,
        });
        let least = room.min();
        let empty = |slot: &&ProgramSlot| matches!(slot.program, SlotState::Empty);
        let vacant = state.slots.iter().enumerate().filter(|(_, slot)| empty(slot));
        // Slots without a failure first, then in the order in which they may restart.
        let last = state.last_restart;
        let next = vacant.map(|(at, slot)| (slot.restart.due(last), at)).min();
        match (least, next) {
            (Some((0, at)), _) => Ok(state.send_to(at, id)),
            (_, Some((None, at))) => Ok(state.start_at(at)),
            (Some((_, at)), _) => Ok(state.send_to(at, id)),
            (None, Some((Some(due), at))) if due <= now => {
                state.last_restart = Some(now);
                state.restarts += 1;
                Ok(state.start_at(at))
            }
            (None, Some((due, _))) => Err(due),
            (None, None) => Err(None),
        }
    }

    /// Registers a program that was started in a slot, with its first call. `spawn` starts its session.
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
            // Spawned under the lock, because the session may end before this returns.
            slot.program = SlotState::Serving { calls, ids, task: spawn() };
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Frees the room of completed calls. `answered` says whether one had a valid reply.
    fn calls_ended<'a>(&self, at: usize, ended: impl IntoIterator<Item = &'a str>, answered: bool) {
        let mut state = self.state();
        if let Some(slot) = state.slots.get_mut(at) {
            if answered {
                slot.restart.answered();
            }
            if let SlotState::Serving { ids, .. } = &mut slot.program {
                ended.into_iter().for_each(|id| _ = ids.remove(id));
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// The program takes no more calls.
    fn leaving(&self, at: usize) {
        if let Some(slot) = self.state().slots.get_mut(at) {
            slot.leave();
        }
    }

    /// Empties a slot. After a failure it stays empty until the backoff has passed.
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
            tracing::warn!(program, slot = at, "{why}; the program may be started again in {wait}");
        }
    }

    /// Lets every program finish its calls and exit, and waits until all have.
    pub(super) async fn empty(&self) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let mut occupied = false;
            for slot in &mut self.state().slots {
                if let SlotState::Serving { calls, .. } = &slot.program {
                    // The send fails only if the program has ended.
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

    /// How often a program was started in a slot whose last program had failed.
    pub(super) fn restarts(&self) -> u64 {
        self.state().restarts
    }

    /// Aborts every session, which kills its program.
    pub(super) fn abort(&self) {
        let mut state = self.state();
        state.closed = true;
        for slot in &state.slots {
            if let SlotState::Serving { task, .. } | SlotState::Leaving(task) = &slot.program {
                task.abort();
            }
        }
    }

    /// A panic while the lock was held leaves every slot in a valid state.
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

/// The slot of a running program. Dropping the guard empties the slot.
pub(super) struct SlotGuard {
    pool: Arc<ProgramPool>,
    at: usize,
    /// The failure of the program, if it ended by one.
    failure: Option<String>,
}

impl SlotGuard {
    pub(super) fn new(pool: Arc<ProgramPool>, at: usize) -> Self {
        // Overwritten by `release`: a session that panics or is dropped counts as a failure.
        Self { pool, at, failure: Some("the program was dropped".to_owned()) }
    }

    pub(super) fn calls_ended<'a>(&self, ids: impl IntoIterator<Item = &'a str>, answered: bool) {
        self.pool.calls_ended(self.at, ids, answered);
    }

    pub(super) fn leaving(&self) {
        self.pool.leaving(self.at);
    }

    /// Logs lines of stderr that belong to no call.
    pub(super) fn log_lines(&self, lines: &Tail, what: &str) {
        let (program, stderr) = (self.pool.name.as_str(), printable(&lines.to_bytes()));
        if !stderr.is_empty() {
            tracing::info!(program, slot = self.at, stderr, "{what}");
        }
    }

    pub(super) fn release(mut self, failure: Option<String>) {
        self.failure = failure;
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.pool.slot_emptied(self.at, self.failure.as_deref());
    }
}
