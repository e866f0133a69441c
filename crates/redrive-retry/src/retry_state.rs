//! The state of one retried call, in memory only.
//!
//! A unit in a store has its history in the ledger; a call has it here. Until the first failure nothing reads a clock or
//! draws randomness, so a success at once costs nothing. The exception is a policy with `max_age`, which needs the time
//! of the first attempt.

use jiff::Timestamp;
use redrive_core::{Decision, Failure, History, JitterKey, JitterSeed, Policy, decide};

use crate::{
    clock::{Clock, SteadyClock},
    rng::unnamed_jitter,
};

/// The inputs of every decision about a call.
#[derive(Clone, Copy)]
pub struct RetryRules<'a> {
    /// When to retry.
    pub policy: &'a Policy,
    /// The clock; `None` uses a monotonic clock of the call's own.
    pub clock: Option<&'a dyn Clock>,
    /// The unit whose jitter is used (POL-4). `None` gives every call its own jitter, so that calls that fail together
    /// do not retry together.
    pub unit: Option<&'a str>,
    /// The jitter seed of named units.
    pub jitter_seed: JitterSeed,
}

/// The attempts and failures of one call so far.
#[derive(Debug, Clone, Default)]
pub struct RetryState {
    attempts: u32,
    history: History,
    jitter: Option<JitterKey>,
    clock: Option<SteadyClock>,
}

impl RetryState {
    /// Starts the call, before its first attempt.
    #[inline]
    pub fn start(&mut self, rules: &RetryRules<'_>) {
        if rules.policy.spec().max_age.is_some() {
            self.history.first_attempt_at = Some(self.now(rules));
        }
    }

    /// Counts a failed attempt and decides what follows.
    pub fn decide(&mut self, rules: &RetryRules<'_>, failure: &Failure) -> Decision {
        self.attempts = self.attempts.saturating_add(1);
        let jitter = *self.jitter.get_or_insert_with(|| match rules.unit {
            Some(unit) => JitterKey::written(rules.jitter_seed, unit),
            None => unnamed_jitter(),
        });
        let now = self.now(rules);
        let decision = decide(rules.policy, &self.history, failure, now, jitter);
        self.history = self.history.after(failure, &decision);
        decision
    }

    /// The number of failed attempts.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The current time on this call's clock.
    pub fn now(&mut self, rules: &RetryRules<'_>) -> Timestamp {
        match rules.clock {
            Some(clock) => clock.now(),
            None => self.clock.get_or_insert_default().now(),
        }
    }
}
