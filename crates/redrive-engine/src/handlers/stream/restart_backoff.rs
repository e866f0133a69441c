//! Decides when a program that failed may be started again.
//!
//! Without a wait, a program that dies at its start would be restarted as fast as the machine can, and every
//! restart would cost a call an attempt. So each consecutive failure doubles the wait, a valid reply resets it,
//! and the programs of a handler restart one after the other: a hundred that die at once do not restart at once.

use std::time::Duration;

use redrive_core::Jitter;
use tokio::time::Instant;

/// The wait after the first failure.
const BASE: Duration = Duration::from_millis(100);

/// The longest wait, without jitter.
const CAP: Duration = Duration::from_secs(30);

/// Spreads the waits of the slots of one handler.
const JITTER: Jitter = Jitter::Fraction(0.25);

/// The shortest time between two restarts of one handler.
const GAP: Duration = Duration::from_millis(20);

/// The fraction of the golden ratio: its multiples fill [0, 1) evenly, for any number of them.
const EVEN: f64 = 0.618_033_988_749_895;

/// The consecutive failures of one slot, and when the next start is allowed.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RestartBackoff {
    failures: u32,
    due: Option<Instant>,
}

impl RestartBackoff {
    /// When the next start is allowed, given the last restart of the handler; `None` is at any time.
    pub(super) fn due(&self, last: Option<Instant>) -> Option<Instant> {
        self.due.map(|due| last.map_or(due, |last| due.max(last + GAP)))
    }

    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    /// Counts a failure, and returns how long to wait.
    pub(super) fn failed(&mut self, slot: usize, now: Instant) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let doubled = 1_u32.checked_shl(self.failures - 1).unwrap_or(u32::MAX);
        let wait = BASE.saturating_mul(doubled).min(CAP);
        let draw = ((slot + 1) as f64 * EVEN + f64::from(self.failures) * EVEN * EVEN).fract();
        let wait = JITTER.spread(wait, draw);
        self.due = Some(now + wait);
        wait
    }
}

#[cfg(test)]
mod tests;
