//! One call's way through its failures, in memory alone.
//!
//! What the ledger is to a unit in a store, a course is to a call in a program: it counts, and asks
//! [`decide`]. Until something fails it reads no clock and draws nothing, so that what succeeds pays
//! nothing for it; only a policy with a `max_age` has to know when the first attempt began.

use jiff::Timestamp;
use redrive_core::{Decision, Failure, History, JitterKey, JitterSeed, Policy, decide};

use crate::{
    chance::jitter_of_the_nameless,
    clock::{Clock, SteadyClock},
};

/// What a call is decided by.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// When to try again.
    pub policy: &'a Policy,
    /// The time; without one, a clock of the call's own that does not jump.
    pub clock: Option<&'a dyn Clock>,
    /// Whose jitter (POL-4); without a name every call is a unit of its own, so that calls which fail
    /// together do not come back together.
    pub unit: Option<&'a str>,
    /// The seed of the jitter of named units.
    pub jitter_seed: JitterSeed,
}

/// What a call has been through.
#[derive(Debug, Clone, Default)]
pub struct Course {
    attempts: u32,
    history: History,
    jitter: Option<JitterKey>,
    clock: Option<SteadyClock>,
}

impl Course {
    /// Begins, before the first attempt.
    #[inline]
    pub fn begin(&mut self, rules: &Rules<'_>) {
        if rules.policy.spec().max_age.is_some() {
            self.history.first_attempt_at = Some(self.now(rules));
        }
    }

    /// Decides about a failed attempt.
    pub fn decide(&mut self, rules: &Rules<'_>, failure: &Failure) -> Decision {
        self.attempts = self.attempts.saturating_add(1);
        let jitter = *self.jitter.get_or_insert_with(|| match rules.unit {
            Some(unit) => JitterKey::written(rules.jitter_seed, unit),
            None => jitter_of_the_nameless(),
        });
        let now = self.now(rules);
        let decision = decide(rules.policy, &self.history, failure, now, jitter);
        self.history = self.history.after(failure, &decision);
        decision
    }

    /// How many attempts failed.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The time as this call sees it.
    pub fn now(&mut self, rules: &Rules<'_>) -> Timestamp {
        match rules.clock {
            Some(clock) => clock.now(),
            None => self.clock.get_or_insert_default().now(),
        }
    }
}
