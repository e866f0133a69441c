//! Where claims start to read the index of ready runs.
//!
//! A claimed run leaves a dead entry at the start of that index until a vacuum removes it. A claim that reads
//! from the start passes over all of them: 8 ms with two million. So a store remembers a cursor for each queue
//! and starts its claims there.
//!
//! Older runs may become ready behind a cursor. Runs that this store makes ready move the cursor back. For runs
//! of other processes a claim reads from the start now and then, and whenever it finds nothing after the
//! cursor. So a run may be claimed a moment later than its age says, but never stays behind.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::RunId;
use redrive_store::{Categories, ClaimRequest, ClaimedRun};

use crate::server_clock::MonotonicClock;

/// A busy queue is read from the start so rarely that it takes a twentieth of the time, within bounds: an old run of
/// another process is to start within a second.
const SCAN_INTERVAL_FACTOR: u32 = 20;
const MIN_SCAN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_SCAN_INTERVAL: Duration = Duration::from_millis(500);

/// A position in the order of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimPosition {
    pub(crate) submitted_at: Timestamp,
    pub(crate) id: RunId,
}

impl ClaimPosition {
    /// Before every run: the first day of PostgreSQL's calendar.
    pub(crate) const START: Self =
        Self { submitted_at: Timestamp::constant(-210_866_803_200, 0), id: RunId(i64::MIN) };

    /// The position of a run, with its time cut to microseconds as it is stored.
    pub(crate) fn new(submitted_at: Timestamp, id: RunId) -> Self {
        let stored = Timestamp::from_microsecond(submitted_at.as_microsecond());
        Self { submitted_at: stored.unwrap_or(submitted_at), id }
    }
}

type ClaimKey = (String, Categories);

/// The cursors of all queues and categories that this store claims from.
pub(crate) struct ClaimCursors {
    cursors: Mutex<HashMap<ClaimKey, ClaimCursor>>,
    clock: MonotonicClock,
}

#[derive(Default)]
struct ClaimCursor {
    /// No run is known to be ready before it.
    position: Option<ClaimPosition>,
    /// The last claim that read from the start.
    scan_started_at: Duration,
    scan_took: Duration,
    /// Whether that claim left no ready run, and no other claim has started since.
    exhausted: bool,
    active_claims: usize,
    /// The earliest position where a run became ready during the active claims, which may not have seen it.
    missed: Option<ClaimPosition>,
}

/// A claim in progress.
pub(crate) struct ActiveClaim<'a> {
    cursors: &'a ClaimCursors,
    key: ClaimKey,
    pub(crate) from: ClaimPosition,
}

impl ClaimCursors {
    pub(crate) fn new(clock: MonotonicClock) -> Self {
        Self { cursors: Mutex::default(), clock }
    }

    /// Starts a claim at the cursor, or at the start if the last scan from there is too old.
    pub(crate) fn start_claim(&self, request: &ClaimRequest) -> ActiveClaim<'_> {
        let key = (request.queue.clone(), request.categories.clone());
        let now = (self.clock)();
        let mut cursors = self.locked();
        let cursor = cursors.entry(key.clone()).or_default();
        let interval =
            (cursor.scan_took * SCAN_INTERVAL_FACTOR).clamp(MIN_SCAN_INTERVAL, MAX_SCAN_INTERVAL);
        let recent = now.saturating_sub(cursor.scan_started_at) < interval;
        let trusted = std::mem::take(&mut cursor.exhausted) || recent;
        let from = cursor.position.filter(|_| trusted).unwrap_or(ClaimPosition::START);
        if from == ClaimPosition::START {
            cursor.scan_started_at = now;
        }
        if cursor.active_claims == 0 {
            cursor.missed = None;
        }
        cursor.active_claims += 1;
        ActiveClaim { cursors: self, key, from }
    }

    /// Moves every cursor back to the oldest of the runs that became ready, whatever their queue.
    pub(crate) fn runs_became_ready(&self, oldest: ClaimPosition) {
        for cursor in self.locked().values_mut() {
            cursor.position = cursor.position.map(|position| position.min(oldest));
            cursor.missed = Some(cursor.missed.map_or(oldest, |missed| missed.min(oldest)));
        }
    }

    /// For runs whose positions are not known.
    pub(crate) fn runs_became_ready_anywhere(&self) {
        self.runs_became_ready(ClaimPosition::START);
    }

    /// Every change behind the lock is complete in itself, so a panic leaves nothing half done.
    fn locked(&self) -> MutexGuard<'_, HashMap<ClaimKey, ClaimCursor>> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveClaim<'_> {
    pub(crate) fn restart(&mut self) {
        self.from = ClaimPosition::START;
        if let Some(cursor) = self.cursors.locked().get_mut(&self.key) {
            cursor.scan_started_at = (self.cursors.clock)();
        }
    }

    /// Moves the cursor to the youngest claimed run: all ready runs before it are claimed. Not so if another
    /// claim has locked the oldest ready run, because that claim may still roll back.
    pub(crate) fn finish(self, claimed: &[ClaimedRun], oldest: Option<RunId>, limit: u32) {
        let mut cursors = self.cursors.locked();
        let Some(cursor) = cursors.get_mut(&self.key) else { return };
        let from_the_start = self.from == ClaimPosition::START;
        if from_the_start {
            cursor.scan_took = (self.cursors.clock)().saturating_sub(cursor.scan_started_at);
        }
        cursor.exhausted = from_the_start && claimed.len() < limit as usize;
        let position =
            |run: &ClaimedRun| ClaimPosition { submitted_at: run.submitted_at, id: run.id };
        let has_oldest = claimed.iter().any(|run| Some(run.id) == oldest);
        if let Some(youngest) = claimed.iter().map(position).max().filter(|_| has_oldest) {
            cursor.position = Some(cursor.missed.map_or(youngest, |missed| missed.min(youngest)));
        }
    }
}

impl Drop for ActiveClaim<'_> {
    fn drop(&mut self) {
        if let Some(cursor) = self.cursors.locked().get_mut(&self.key) {
            cursor.active_claims = cursor.active_claims.saturating_sub(1);
        }
    }
}
