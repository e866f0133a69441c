//! Where claims start to read the index of ready runs.
//!
//! A claimed run leaves a dead entry at the start of that index until a vacuum removes it. A claim that reads
//! from the start passes over all of them: 8 ms with two million. So a store remembers a cursor for each queue
//! and starts its claims there.
//!
//! Older runs may become ready behind a cursor. Runs that this store makes ready move the cursor back. For runs
//! of other processes a claim reads from the start now and then, and whenever it finds nothing after the
//! cursor. So a run may be claimed a moment later than its age says, but never stays behind.
//!
//! While an open transaction keeps a vacuum from removing dead entries, a scan from the start takes a quarter of a
//! second after two million runs. Scans become rare then, and between them claims look for older runs only in the pages
//! of the table that were written of late: new rows are there, unless a vacuum has freed other pages before.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::RunId;
use redrive_store::{Categories, ClaimRequest, ClaimedRun};

use crate::server_clock::MonotonicClock;

/// A busy queue is read from the start, and new pages are looked at, so rarely that it takes a twentieth of the time, within
/// bounds: an old run of another process is to start within a second. A look takes as long as a scan if it finds a run.
const INTERVAL_FACTOR: u32 = 20;
const MIN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_LOOK_INTERVAL: Duration = Duration::from_millis(500);
const MAX_SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// Pages before the new ones that are read too: each session fills up the page that it has begun.
const BEGUN_PAGES: i64 = 64;

/// After every page.
const NO_PAGE: i64 = u32::MAX as i64;

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
    /// The last scan or look at new pages, and the size of the table then and the time before. Rows that were not committed
    /// at one look are found by the next.
    looked_at: Duration,
    look_took: Duration,
    pages: Option<(i64, i64)>,
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
    /// Where to look for runs before `from`, if that is to be done.
    pub(crate) look_from_page: Option<i64>,
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
        let interval = (cursor.scan_took * INTERVAL_FACTOR).clamp(MIN_INTERVAL, MAX_SCAN_INTERVAL);
        let recent = now.saturating_sub(cursor.scan_started_at) < interval;
        let trusted = std::mem::take(&mut cursor.exhausted) || recent;
        let from = cursor.position.filter(|_| trusted).unwrap_or(ClaimPosition::START);
        let look_from_page = cursor.look(from, now);
        if cursor.active_claims == 0 {
            cursor.missed = None;
        }
        cursor.active_claims += 1;
        ActiveClaim { cursors: self, key, from, look_from_page }
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

impl ClaimCursor {
    /// The page from which a claim looks for runs before its position, if it does. A claim from the start looks at no page
    /// and learns the size of the table.
    fn look(&mut self, from: ClaimPosition, now: Duration) -> Option<i64> {
        let is_scan = from == ClaimPosition::START;
        if is_scan {
            self.scan_started_at = now;
        }
        let (before, _) = self.pages.filter(|_| !is_scan).unwrap_or((NO_PAGE, NO_PAGE));
        let interval = (self.look_took * INTERVAL_FACTOR).clamp(MIN_INTERVAL, MAX_LOOK_INTERVAL);
        let due = now.saturating_sub(self.looked_at) >= interval;
        (is_scan || due).then(|| {
            self.looked_at = now;
            before.saturating_sub(BEGUN_PAGES).max(0)
        })
    }
}

impl ActiveClaim<'_> {
    pub(crate) fn restart(&mut self) {
        self.from = ClaimPosition::START;
        if let Some(cursor) = self.cursors.locked().get_mut(&self.key) {
            self.look_from_page = cursor.look(self.from, (self.cursors.clock)());
        }
    }

    /// Remembers how many pages the table had when the claim looked at it.
    pub(crate) fn saw_pages(&self, pages: i64) {
        if let Some(cursor) = self.cursors.locked().get_mut(&self.key) {
            let (_, last) = cursor.pages.unwrap_or((pages, pages));
            cursor.pages = Some((last, pages));
        }
    }

    /// Moves the cursor to the youngest claimed run: all ready runs before it are claimed. Not so if another
    /// claim has locked the oldest ready run, because that claim may still roll back.
    pub(crate) fn finish(self, claimed: &[ClaimedRun], oldest: Option<RunId>, limit: u32) {
        let mut cursors = self.cursors.locked();
        let Some(cursor) = cursors.get_mut(&self.key) else { return };
        let from_the_start = self.from == ClaimPosition::START;
        if self.look_from_page.is_some() {
            cursor.look_took = (self.cursors.clock)().saturating_sub(cursor.looked_at);
        }
        if from_the_start {
            cursor.scan_took = cursor.look_took;
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

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use redrive_core::{AttemptNumber, Epoch, History};
    use redrive_store::WorkerId;

    use super::*;

    #[test]
    fn a_queue_that_takes_long_to_read_is_read_rarely_and_looked_at_in_between() {
        let clock = Arc::new(AtomicU64::new(0));
        let ticks = clock.clone();
        let cursors = ClaimCursors::new(Arc::new(move || {
            Duration::from_millis(ticks.load(Ordering::SeqCst))
        }));
        let request = ClaimRequest {
            queue: "q".to_owned(),
            categories: Categories::All,
            limit: 1,
            owner: WorkerId("w".to_owned()),
            lease_until: Timestamp::UNIX_EPOCH,
            now: Timestamp::UNIX_EPOCH,
            gates: Default::default(),
        };
        let run = ClaimedRun {
            id: RunId(7),
            category: String::new(),
            payload: "1".to_owned(),
            submitted_at: Timestamp::UNIX_EPOCH,
            attempt: AttemptNumber(1),
            epoch: Epoch(1),
            history: History::default(),
            pass: Default::default(),
        };
        let (mut scans, mut looks) = (Vec::new(), Vec::new());
        for millisecond in (0..10_000).step_by(50) {
            clock.store(millisecond, Ordering::SeqCst);
            let claim = cursors.start_claim(&request);
            let is_scan = claim.from == ClaimPosition::START;
            clock.fetch_add(if is_scan { 240 } else { 0 }, Ordering::SeqCst);
            match claim.look_from_page {
                Some(_) if is_scan => scans.push(millisecond),
                Some(page) => looks.push((millisecond, page)),
                None => {}
            }
            claim.look_from_page.inspect(|_| claim.saw_pages(1_000 + millisecond as i64));
            claim.finish(std::slice::from_ref(&run), Some(run.id), 1);
        }
        assert_eq!(scans, [0, 4_800, 9_600]);
        let expected = [(500, 1_000), (600, 1_000), (700, 1_500), (800, 1_600)];
        assert_eq!(looks[..4], expected.map(|(at, pages)| (at, pages - BEGUN_PAGES)));
        assert_eq!(looks.len(), 43 + 43);
    }
}
