//! When a program that failed is started again.
//!
//! A program that dies at its start would otherwise be started as fast as the machine can, and every
//! call would pay for it with an attempt. So each failure in a row doubles the wait, a good answer
//! ends the row, and the programs of one handler come back one after the other: a hundred that die
//! at once do not all start at once.

use std::time::Duration;

use redrive_core::Jitter;
use tokio::time::Instant;

/// The wait after the first failure.
const BASE: Duration = Duration::from_millis(100);

/// The longest wait, before jitter.
const CAP: Duration = Duration::from_secs(30);

/// How the waits of the places of one handler are spread.
const JITTER: Jitter = Jitter::Fraction(0.25);

/// The least time between two restarts of one handler.
const GAP: Duration = Duration::from_millis(20);

/// The golden ratio's fraction: its multiples fill [0, 1) evenly, however many there are.
const EVEN: f64 = 0.618_033_988_749_895;

/// The failures in a row at one place, and when the next start may be.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RestartBackoff {
    failures: u32,
    due: Option<Instant>,
}

impl RestartBackoff {
    /// When the next start may be, if the handler's last restart was then; at any time if there was
    /// no failure.
    pub(super) fn due(&self, last: Option<Instant>) -> Option<Instant> {
        self.due.map(|due| last.map_or(due, |last| due.max(last + GAP)))
    }

    /// Notes a good answer.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    /// Notes a failure at a place, and says how long to wait.
    pub(super) fn failed(&mut self, place: usize, now: Instant) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let doubled = 1_u32.checked_shl(self.failures - 1).unwrap_or(u32::MAX);
        let wait = BASE.saturating_mul(doubled).min(CAP);
        let draw = ((place + 1) as f64 * EVEN + f64::from(self.failures) * EVEN * EVEN).fract();
        let wait = JITTER.spread(wait, draw);
        self.due = Some(now + wait);
        wait
    }
}

#[cfg(test)]
mod tests;
