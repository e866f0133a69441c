//! Where claims begin to look.
//!
//! What was claimed leaves dead entries in the index of what is ready, at its beginning, until a vacuum
//! removes them. A look from the beginning passes over all of them: 8 ms where there are two million. So
//! a store remembers for each queue how far its claims have come, and looks from there.
//!
//! Older runs may turn up behind that mark. Those that this store brings move it back. For those that
//! others bring a busy queue is looked at from its beginning now and then, and every queue where nothing
//! is found from its mark on. So they may come a moment later than their age says, and are never left.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::RunId;
use redrive_store::{Categories, ClaimRequest, ClaimedRun};

use crate::server_clock::Monotonic;

/// The time between two looks of a busy queue from its beginning: as long as keeps them to a twentieth of
/// the time, within bounds.
const LOOK_SHARE: u32 = 20;
const SHORTEST_TRUST: Duration = Duration::from_millis(100);
const LONGEST_TRUST: Duration = Duration::from_secs(1);

/// A place in the order of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) submitted_at: Timestamp,
    pub(crate) id: RunId,
}

impl Place {
    /// Before every run: the first day that PostgreSQL knows.
    pub(crate) const BEGINNING: Self =
        Self { submitted_at: Timestamp::constant(-210_866_803_200, 0), id: RunId(i64::MIN) };

    /// The place of a run: its time as it is stored.
    pub(crate) fn new(submitted_at: Timestamp, id: RunId) -> Self {
        let stored = Timestamp::from_microsecond(submitted_at.as_microsecond());
        Self { submitted_at: stored.unwrap_or(submitted_at), id }
    }
}

/// How far claims have come.
pub(crate) struct Marks {
    queues: Mutex<HashMap<(String, Categories), Mark>>,
    clock: Monotonic,
}

#[derive(Default)]
struct Mark {
    /// Nothing is known to be ready before it.
    place: Option<Place>,
    /// When a claim last looked from the beginning, and how long it took.
    begun_at: Duration,
    took: Duration,
    /// Whether that left nothing, and nobody has looked since.
    exhausted: bool,
    /// Claims under way, and the oldest place to which runs came meanwhile. They may not have seen them.
    looking: usize,
    missed: Option<Place>,
}

/// A claim under way.
pub(crate) struct Looking<'a> {
    marks: &'a Marks,
    key: (String, Categories),
    /// Where it begins.
    pub(crate) from: Place,
}

impl Marks {
    pub(crate) fn new(clock: Monotonic) -> Self {
        Self { queues: Mutex::default(), clock }
    }

    /// Begins a claim: at the mark, if it can still be trusted.
    pub(crate) fn look(&self, request: &ClaimRequest) -> Looking<'_> {
        let key = (request.queue.clone(), request.categories.clone());
        let now = (self.clock)();
        let mut queues = self.queues();
        let mark = queues.entry(key.clone()).or_default();
        let trust = (mark.took * LOOK_SHARE).clamp(SHORTEST_TRUST, LONGEST_TRUST);
        let recent = now.saturating_sub(mark.begun_at) < trust;
        let trusted = std::mem::take(&mut mark.exhausted) || recent;
        let from = mark.place.filter(|_| trusted).unwrap_or(Place::BEGINNING);
        if from == Place::BEGINNING {
            mark.begun_at = now;
        }
        if mark.looking == 0 {
            mark.missed = None;
        }
        mark.looking += 1;
        Looking { marks: self, key, from }
    }

    /// Notes that runs became ready, the oldest of them at a place, in whatever queue.
    pub(crate) fn came(&self, oldest: Place) {
        for mark in self.queues().values_mut() {
            mark.place = mark.place.map(|place| place.min(oldest));
            mark.missed = Some(mark.missed.map_or(oldest, |missed| missed.min(oldest)));
        }
    }

    /// Notes that runs became ready nobody knows where.
    pub(crate) fn came_anywhere(&self) {
        self.came(Place::BEGINNING);
    }

    /// Every change is whole.
    fn queues(&self) -> MutexGuard<'_, HashMap<(String, Categories), Mark>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Looking<'_> {
    /// Begins again, at the beginning.
    pub(crate) fn begin_again(&mut self) {
        self.from = Place::BEGINNING;
        if let Some(mark) = self.marks.queues().get_mut(&self.key) {
            mark.begun_at = (self.marks.clock)();
        }
    }

    /// Notes what was claimed: whatever was ready before the youngest of it is taken. Unless another claim
    /// holds something older, and may yet let it go.
    pub(crate) fn took(self, claimed: &[ClaimedRun], oldest: Option<RunId>, limit: u32) {
        let mut queues = self.marks.queues();
        let Some(mark) = queues.get_mut(&self.key) else { return };
        let from_the_beginning = self.from == Place::BEGINNING;
        if from_the_beginning {
            mark.took = (self.marks.clock)().saturating_sub(mark.begun_at);
        }
        mark.exhausted = from_the_beginning && claimed.len() < limit as usize;
        let places = claimed.iter().map(|run| Place { submitted_at: run.submitted_at, id: run.id });
        let all_ours = claimed.iter().any(|run| Some(run.id) == oldest);
        if let Some(youngest) = places.max().filter(|_| all_ours) {
            mark.place = Some(mark.missed.map_or(youngest, |missed| missed.min(youngest)));
        }
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        if let Some(mark) = self.marks.queues().get_mut(&self.key) {
            mark.looking = mark.looking.saturating_sub(1);
        }
    }
}
