//! When and where to look for the outcomes of the pending units of a plan.
//!
//! Workers take units about in the order of their ids, so most outcomes are among the first pending units. The others are
//! looked through as well, page by page and with rests, so that a plan with many pending units does not keep the store busy.

use std::time::Duration;

use jiff::Timestamp;

/// The rest between two looks at the first page, and the wait after the last page: at first, and if none were found for long.
const SETTLE: Duration = Duration::from_millis(250);
const MAX_SETTLE: Duration = Duration::from_secs(10);

/// The rest after a page of pending units of which none had ended, as a multiple of the time that the page took.
const REST: u32 = 3;
const REST_BETWEEN_STEPS: u32 = 12;

#[derive(Debug)]
pub(super) struct Settling {
    /// Where the next page begins, and when it may be looked at.
    after: i64,
    at: Timestamp,
    /// When to look at the first page again, while the others are looked through.
    front_at: Timestamp,
    /// The wait after the last page, and whether the pages before had an outcome.
    wait: Duration,
    found: bool,
    /// Whether a page was looked at since the last step. A step that is due goes first then.
    is_last: bool,
}

impl Settling {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { after: 0, at: now, front_at: now, wait: SETTLE, found: false, is_last: false }
    }

    /// When to look at a page.
    pub(super) fn next_at(&self) -> Timestamp {
        if self.after > 0 { self.at.min(self.front_at) } else { self.at }
    }

    /// The page to look at, after which unit.
    pub(super) fn page(&self, now: Timestamp) -> i64 {
        if self.is_front(now) { 0 } else { self.after }
    }

    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// A step was made, which may have units that end at once.
    pub(super) fn stepped(&mut self, now: Timestamp) {
        self.is_last = false;
        self.wait = SETTLE;
        self.at = self.at.min(after(now, SETTLE));
    }

    /// After a page that was looked at from `began` to `now`, and whether it had outcomes.
    pub(super) fn look_on(
        &mut self,
        next: Option<i64>,
        found: bool,
        began: Timestamp,
        now: Timestamp,
        steps: bool,
    ) {
        let is_front = self.is_front(began);
        let took = now.duration_since(began).unsigned_abs();
        let rest = took.saturating_mul(if steps { REST_BETWEEN_STEPS } else { REST });
        self.is_last = true;
        self.found |= found;
        if is_front || self.after == 0 {
            self.front_at = after(now, if found { Duration::ZERO } else { SETTLE.max(rest) });
        }
        if is_front {
            return;
        }
        self.after = next.unwrap_or_default();
        let rest = match next {
            Some(_) if found => Duration::ZERO,
            Some(_) => rest,
            None => {
                self.wait = if self.found { SETTLE } else { (self.wait * 2).min(MAX_SETTLE) };
                self.found = false;
                self.wait
            }
        };
        self.at = after(now, rest);
    }

    /// Whether the first page is looked at in between.
    fn is_front(&self, now: Timestamp) -> bool {
        self.after > 0 && self.front_at <= now
    }
}

fn after(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}
