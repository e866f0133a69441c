//! How much to claim at a time.
//!
//! Too little, and short work spends its time on claims; too much, and a worker sits on units that
//! others could have begun. So a worker holds what fills its slots, and ahead of that what it will
//! begin within a moment, going by how fast it just was.

use jiff::{SignedDuration, Timestamp};

/// How far ahead to claim.
const HORIZON: SignedDuration = SignedDuration::from_millis(50);

/// How long to look at before going by what was seen.
const WINDOW: SignedDuration = SignedDuration::from_millis(10);

/// Units claimed ahead at most.
const MAX_AHEAD: usize = 4_000;

/// How many times further ahead others may hand units over.
const REACH_FOR_HANDED: usize = 3;

/// What a worker has in hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hand {
    /// Units that run, or are to.
    pub(crate) to_do: usize,
    /// All of them, with those that are done and only wait to be written.
    pub(crate) held: usize,
}

impl Hand {
    /// What is done keeps nobody from beginning more, up to a limit: a crash would have it all done again.
    fn room(self, target: usize) -> usize {
        target.saturating_sub(self.to_do).min((2 * target).saturating_sub(self.held))
    }
}

/// How much a worker wants, from how fast it is.
#[derive(Debug)]
pub(crate) struct Prefetch {
    concurrency: usize,
    ahead: usize,
    since: Option<Timestamp>,
    ended: i32,
}

impl Prefetch {
    pub(crate) fn new(concurrency: usize) -> Self {
        Self { concurrency, ahead: 0, since: None, ended: 0 }
    }

    /// How many to claim. Nothing while most of the room is taken: a claim costs the same for one as for
    /// many.
    pub(crate) fn want(&self, hand: Hand) -> usize {
        let target = self.concurrency + self.ahead;
        let room = hand.room(target);
        if room >= (target / 4).max(1) { room } else { 0 }
    }

    /// How many more other loops may hand over. They come when they are written, which takes a while, and
    /// until then nobody else could have them.
    pub(crate) fn welcome(&self, hand: Hand) -> usize {
        hand.room(self.concurrency + self.ahead * REACH_FOR_HANDED)
    }

    /// Counts an attempt that ended.
    pub(crate) fn ended(&mut self, now: Timestamp) {
        let since = *self.since.get_or_insert(now);
        self.ended = self.ended.saturating_add(1);
        let elapsed = now.duration_since(since);
        if elapsed < WINDOW && elapsed >= SignedDuration::ZERO {
            return;
        }
        // A clock that was set back starts a new window and says nothing about speed.
        if elapsed >= WINDOW {
            let within = f64::from(self.ended) * HORIZON.as_secs_f64() / elapsed.as_secs_f64();
            self.ahead = (within as usize).min(MAX_AHEAD);
        }
        (self.since, self.ended) = (Some(now), 0);
    }
}
